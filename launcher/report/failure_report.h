#pragma once

#include "launcher/report/error_file.h"
#include "launcher/report/findings.h"
#include "launcher/report/outcome.h"
#include "launcher/report/symptom.h"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// What a report says beside the outcome itself.
struct ReportContext {
  std::string title;  ///< the job: its entry point as typed
  std::string hostname;
  std::string run_id;
  std::string log_root;     ///< empty: no files
  std::string report_file;  ///< where the JSON form lies; empty: nowhere
  int max_restarts = 0;
  std::optional<Straggler> straggler{};  ///< the last that was told
  std::string hang_page{};  ///< what was said of the last hang that was ended; empty: there was none
  std::optional<Duration> restart_window{};  ///< --max-restarts-window
};

/// The guilty worker, and all that is known about its end.
struct RootCause {
  WorkerOutcome worker;
  std::optional<std::string> diagnosis;      ///< diagnosis.h; of the speaker, as `exception` is
  std::optional<ErrorFile> error_file;       ///< what the worker itself wrote
  std::optional<LastException> exception{};  ///< the last on stderr
  /// Who lost it as a peer, where it left with 0 or stood still and so said nothing itself.
  std::optional<WorkerOutcome> victim{};
  std::string unread_error_file{};  ///< why_unreadable
  std::string host{};               ///< of another node's worker; empty: it was one of ours
  std::string what{};               ///< of another node's worker: its end, in the words of that node

  /// Whose words tell what happened.
  [[nodiscard]] const WorkerOutcome& speaker() const { return victim ? *victim : worker; }
};

/// One screen for a person: root cause first, its last words, consequences folded, where the logs are. Ends
/// with a newline. `root` belongs to the last generation and may be empty (a signal, a time-out, a rendezvous
/// that failed).
std::string render_report(const JobOutcome& outcome, const std::optional<RootCause>& root,
                          const ReportContext& context);

/// Why a generation failed that will be restarted, in one line: "rank 1 was killed by SIGSEGV (segmentation
/// fault: …)".
std::string render_restart(const GenerationOutcome& generation, const std::optional<RootCause>& root);

/// The same for programs: one JSON document with every generation and worker; docs/failures.md describes its keys.
std::string report_json(const JobOutcome& outcome, const std::optional<RootCause>& root,
                        const ReportContext& context);

/// "rank 1 (local rank 1, pid 4711, host node-a) was killed by SIGSEGV after 3.2 s".
std::string headline(const WorkerOutcome& worker, const std::string& hostname);

/// Lines such as "ranks 0-2: ended by SIGTERM, because rank 3 failed", by rank. Empty when there is nothing
/// to tell.
/// `is_root_told`: the root cause has been, and those that ended alike with it.
std::vector<std::string> consequences(const GenerationOutcome& generation, bool is_root_told = true);

}  // namespace ddprun::launcher
