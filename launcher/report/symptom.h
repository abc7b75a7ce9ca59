#pragma once

#include "launcher/report/error_file.h"
#include "launcher/report/last_words.h"
#include "launcher/report/outcome.h"
#include "rendezvous/base/exit_status.h"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// Tells a cause from a symptom by how a worker ended and what it said. What it said after our signal is what
/// it came to because of us. Pure; the phrases and where each is from stand in symptom.cc.
Ending judge_end(const ExitStatus& status, const LastWords& words);

/// The same of a worker that has ended, with when it failed by its error file.
Ending judge_worker(const WorkerOutcome& worker, const std::optional<ErrorFile>& error_file);

/// "DataLoader worker (pid 4711) is killed by signal: Killed", or "exited unexpectedly", in `text` as a
/// sentence for people; empty if not there.
std::string loader_death(std::string_view text);

/// The part of stderr in which a process that aborted itself says why.
std::string_view words_of_abort(const LastWords& words, const std::optional<LastException>& exception);

/// The last line of `text` in which an assertion or the C library says why it aborts, or empty.
std::string_view abort_line(std::string_view text);

/// "std::runtime_error: boom", of which std::terminate has told last in `text`, the words of libstdc++'s handler: the
/// type, and the first line of what(), unless it is empty. Empty where it was called without an exception, or not at
/// all, or where something else aborted the process after it.
std::string uncaught_cpp_exception(std::string_view text);

}  // namespace ddprun::launcher
