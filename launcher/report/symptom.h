#pragma once

#include "launcher/agent/outcome.h"
#include "launcher/process/exit_status.h"
#include "launcher/report/error_file.h"
#include "launcher/report/traceback.h"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// All that a worker left to read when it ended.
struct LastWords {
  std::string_view stderr_tail;
  std::string_view traceback;             ///< as TracebackScanner kept it
  bool traceback_is_last = false;         ///< little was written after it
  const ErrorFile* error_file = nullptr;  ///< written in this life of the worker
  std::optional<int> stopped_with;        ///< the signal we had sent it
};

/// Views into both, which outlive it.
LastWords last_words(const WorkerOutcome& worker, const std::optional<ErrorFile>& error_file);

/// Tells a cause from a symptom by how a worker ended and what it said. Pure; the phrases and where each is
/// from stand in symptom.cc.
Ending judge_end(const ExitStatus& status, const LastWords& words);

/// The same of a worker that has ended, with when it failed by its error file.
Ending judge_worker(const WorkerOutcome& worker, const std::optional<ErrorFile>& error_file);

/// The traceback that belongs to this end; nullopt where it ended of something else, long after or without
/// one.
std::optional<Traceback> traceback_of(const ExitStatus& status, const LastWords& words);

/// "DataLoader worker (pid 4711) is killed by signal: Killed" in `text` as a sentence for people; empty if
/// not there.
std::string loader_death(std::string_view text);

}  // namespace ddprun::launcher
