#pragma once

#include "launcher/output/lost_output.h"
#include "launcher/output/traceback_scanner.h"
#include "launcher/process/process_table.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/exit_status.h"
#include "rendezvous/base/ids.h"
#include "rendezvous/membership/types.h"

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// What a worker's end means for the job.
enum class EndKind {
  kSucceeded,  ///< exited with 0

  kRootCause,    ///< what failed first of its generation and is not explained by another's end
  kConsequence,  ///< ended badly (or was ended) after the root cause, a signal or a time-out
  kNotEnded,     ///< still there after SIGKILL and the wait for it: see `stuck_in`
  kNotStarted,   ///< never spawned, because the generation was stopped before its turn
};

std::string_view to_string(EndKind end_kind);

using membership::Weight;

/// What a worker's end says about itself; symptom.h reads it.
struct Ending {
  Weight weight = Weight::kCause;
  std::string symptom{};        ///< for people, not kCause: "lost a peer (Connection closed by peer)"
  bool waited_in_vain = false;  ///< kSymptom: a peer was silent for too long
  std::string error{};  ///< "ValueError: loss is nan": its own last exception, from stderr or its error file
  /// It had failed before the signal that we sent it, or of what that signal cannot have brought about.
  bool is_own_failure = false;
  /// Its error is what the program made of our signal: KeyboardInterrupt, torchelastic's SignalException.
  bool is_of_signal = false;
  /// It had ended, or was ending, when our signal came.
  bool was_over = false;
  /// When it failed, where it says so itself and that was before it ended.
  std::optional<TimePoint> failed_at{};
};

/// What the supervisor makes of a worker's end.
struct WorkerFate {
  EndKind end_kind = EndKind::kNotStarted;
  std::optional<Error> spawn_error;  ///< why it could not be started; set on the root cause only
  std::optional<int> stopped_with;   ///< last signal the agent sent it: SIGTERM while draining, SIGKILL after
  /// By SIGSTOP or SIGTSTP, when another ended of what such a one brings about. The root cause is blamed for that.
  bool was_suspended = false;
  Ending ending;
};

/// Why a worker was ended for its want of progress, beside the agent.
struct HangEnd {
  std::string reason;              ///< "no progress for 5 s (--hang-timeout), so …"; empty: it was not
  bool is_of_those_ended = false;  ///< it waited for ranks that had ended, and they are to blame
};

/// Everything known about one worker of one generation once it is over: what any node may know, and what only its own
/// does. Facts only: failure_report.h writes the prose.
struct WorkerOutcome : membership::WorkerEnd, WorkerFate {
  TimePoint started_at{};  ///< BootClock: CLOCK_BOOTTIME, ns
  TimePoint ended_at{};
  std::string stdout_path;  ///< empty when the stream went to no file
  std::string stderr_path;
  bool error_file_is_old = false;  ///< it lay there when the worker was started, and has not changed since
  /// Its last bytes on stderr, kStderrTailBytes at most, from a line's start if there is one.
  std::string stderr_tail;
  PrintedTraceback traceback;  ///< the last whole one on stderr; may be none
  /// Written after our signal, which the worker did not ignore: what it came to because of us.
  bool error_file_is_late = false;
  bool traceback_is_late = false;
  Leaving was_leaving = Leaving::kNotYet;  ///< when our signal came
  HangEnd hang;
  std::optional<int> passed_on;  ///< a signal that the launcher got last and passed on to its workers
  std::string stuck_in;  ///< kNotEnded: describe_stuck, e.g. "D (disk sleep) in nfs_wait_bit_killable"

  /// And has not ended of something else just before.
  [[nodiscard]] bool is_killed_for_hang() const;
};

inline constexpr std::size_t kStderrTailBytes = 8192;

/// Why a generation, and with the last one the job, came to its end.
enum class StopReason {
  kSucceeded,         ///< every worker exited with 0
  kWorkerFailed,      ///< a worker exited with another code or was killed
  kSpawnFailed,       ///< a worker could not be started
  kSignal,            ///< the launcher was told to stop
  kJobTimeout,        ///< --job-timeout is over
  kRoundStopped,      ///< not by this node: a failure or drain of another, a lost lease, the job's end
  kRendezvousFailed,  ///< the world could not be agreed on
};

std::string_view to_string(StopReason reason);

/// One generation on this node.
struct GenerationOutcome {
  Generation generation{1};
  StopReason reason = StopReason::kSucceeded;
  int signal = 0;   ///< kSignal: which
  std::string why;  ///< one sentence: "rank 2 (pid 4711) was killed by SIGKILL after 3.2 s"
  std::optional<std::size_t> root_cause;  ///< index into `workers`
  std::optional<std::size_t> victim;      ///< who lost a root cause that left with 0 or stood still
  /// Of another node's worker, or of who has lost one of ours that left with 0 or stood still: that it ended of.
  std::optional<membership::NodeFailure> told_cause;
  std::string restart_why;  ///< of the restart that was to follow: "node 1 (b) was lost: …"; empty: none was
  TimePoint started_at{};
  TimePoint ended_at{};
  std::string log_dir;                 ///< <log_root>/attempt_<restart count>
  std::vector<WorkerOutcome> workers;  ///< by local rank
  std::vector<std::string> leftovers;  ///< "pid 4712 (python3)": processes the workers left behind, now ended
  std::vector<std::string> survivors;  ///< those that have not: "pid 4712 (dd), in state D (disk sleep)"
};

/// Another generation was to follow.
struct GrantedRestart {
  std::string why;  ///< a sentence
  /// Where this node had no part in the generation that failed: of whom.
  std::optional<membership::NodeFailure> cause;
};

/// The whole job on this node.
struct JobOutcome {
  int exit_code = 0;
  StopReason reason = StopReason::kSucceeded;
  int signal = 0;         ///< kSignal: which
  std::string why;        ///< why no further generation: "restart budget of 3 is spent"
  int restarts_used = 0;  ///< of --max-restarts
  /// The coordinator's --max-restarts, which counts; none: nobody said.
  std::optional<int> restarts_allowed{};
  /// None has begun since, and `why` tells what ended the job.
  std::optional<GrantedRestart> granted_restart;
  std::string refusal;  ///< why there was no further restart although the budget had one; may be empty
  std::optional<membership::NodeFailure> told_cause;  ///< why it ended, as of a generation
  std::optional<Error> error;                         ///< kRendezvousFailed: what went wrong
  /// In order; never empty unless kRendezvousFailed or an early signal.
  std::vector<GenerationOutcome> generations;
  std::vector<LostOutput> lost_output;  ///< what did not get where it was to go
};

// Pure, both.

/// Lets the workers' words go, but those of the last generation and of the last that failed, which a report shows:
/// those of thousands would fill the memory of a job that goes on for weeks.
void forget_old_words(JobOutcome& outcome);

/// A restart was granted. This node may have blamed another than its root cause, or have been a spare in the generation
/// that is over.
void note_restart(JobOutcome& outcome, const membership::Restart& restart);

/// The job was ended for it, not well, because of outcome.told_cause, if that is a worker.
void note_bad_end(JobOutcome& outcome);

/// `told` is who is blamed for the end of `generation`, in which it had its rank, if anybody. Where that is a worker of
/// this node, of whom more is known here, it becomes the root cause and `told` none, but for one that left with 0 or
/// stood still: who lost it is told. Any other worker of this node is a consequence.
void settle_blame(GenerationOutcome& generation, std::optional<membership::NodeFailure>& told);

}  // namespace ddprun::launcher
