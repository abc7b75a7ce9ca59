#pragma once

#include "launcher/agent/blame.h"
#include "launcher/agent/supervisor_events.h"
#include "launcher/report/outcome.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/ids.h"

#include <sys/types.h>

#include <array>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// Where a job on this node stands.
enum class State {
  kRendezvous,  ///< agreeing with the other nodes on members and ranks, or asking whether the job goes on
  kStarting,    ///< workers are being spawned
  kRunning,     ///< all workers were spawned, at least one is alive
  kBlaming,     ///< a worker failed of what another must have caused, who is given time to say so
  kDraining,    ///< workers were asked to end and have until the grace deadline
  kKilling,     ///< workers were sent SIGKILL
  kSweeping,    ///< workers are gone; what they left behind is being ended
  kWaiting,     ///< our workers succeeded, other nodes still run
  kDone,
};
inline constexpr std::array kAllStates{State::kRendezvous, State::kStarting, State::kRunning,
                                       State::kBlaming,    State::kDraining, State::kKilling,
                                       State::kSweeping,   State::kWaiting,  State::kDone};
std::string_view to_string(State state);

/// What one event led to. `story` is a sentence for the log; `is_loud` says whether a user wants to see it
/// unasked.
struct Step {
  State from;
  State to;
  std::vector<Action> actions;
  std::string story;
  bool is_loud = false;
};

struct SupervisorOptions {
  LocalWorldSize local_world_size{1};
  Duration grace = std::chrono::seconds(30);        ///< from the death signal to SIGKILL
  Duration blame_window = std::chrono::seconds(3);  ///< from a symptom to stopping the others; 0: at once
  std::optional<Duration> job_timeout;
  std::vector<int> no_restart_exit_codes;
  bool has_peers = false;  ///< other nodes: they may know the cause of a failure, and hear of ours
  int sigterm_exit_code = exit_code::kSignalBase + SIGTERM;  ///< where SIGTERM means preemption, "requeue me"
};

/// The policy of a job on one node: what to do when something happens. Pure: events and times come in,
/// actions and a reason come out; it never fails, and no event is without an answer. The table in
/// supervisor.cc is the whole of it.
///
///   first failure        stops the group; workers that end after it are consequences
///   a symptom            waits for what it is a symptom of, up to the blame window
///   a better cause       that shows up while the group is being stopped takes the blame over
///   SIGTERM              that has just ended all that failed, as of a script for all processes, is why the job ends
///   SIGINT               kills at once while the group is being stopped, if any stop signal came before it
///   exit 0 of one        is fine while others run
///   exit 0 of all        that nobody asked for is a success, also if it is seen when the lease is lost
///   a survivor           of SIGKILL forbids a restart, and nobody is told that none is alive
///   the exit code        is the guilty worker's own, 128 + signal, or the code of the reason to stop
class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options);

  /// The first actions: join the first round and set the job's deadline.
  Step start(TimePoint now);
  Step handle(const Event& event, TimePoint now);

  [[nodiscard]] State state() const { return state_; }
  /// The current generation, complete once the state has left kSweeping.
  [[nodiscard]] const std::vector<SupervisedWorker>& workers() const { return workers_; }
  [[nodiscard]] StopReason reason() const { return reason_; }
  /// Why the generation was stopped: "rank 2 (pid 4711) was killed by SIGKILL after 3.2 s".
  [[nodiscard]] const std::string& why() const { return why_; }
  [[nodiscard]] std::optional<LocalRank> root_cause() const { return root_cause_; }
  /// The worker that lost the root cause, where that left with 0 or stood still.
  [[nodiscard]] std::optional<LocalRank> victim() const { return victim_; }
  /// How well the root cause explains the end: if it is less than kCause, another node may have a better one.
  [[nodiscard]] Weight blamed_weight() const;
  [[nodiscard]] std::optional<Rank> blamed_rank() const;
  /// Why no generation follows the failed one; empty: that is not known, or none failed.
  [[nodiscard]] const std::string& why_no_restart() const { return why_no_restart_; }
  /// Why this node wants no further generation, whatever the budget; empty: that is up to whoever is asked for it.
  [[nodiscard]] const std::string& refusal() const {
    return end_is_told_ || restart_forbidden_.empty() ? final_because_ : restart_forbidden_;
  }
  [[nodiscard]] int stop_signal() const { return stop_signal_; }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  friend struct SupervisorTable;
  using Actions = std::vector<Action>;

  // Facts that guards ask for.
  [[nodiscard]] int alive_count() const;
  [[nodiscard]] bool is_last_alive(LocalRank worker) const;
  [[nodiscard]] std::vector<LocalRank> alive() const;
  SupervisedWorker& worker(LocalRank local_rank);

  // What a row does, with its event as far as it is needed: supervisor_acts.cc.
  Actions begin_generation(const RoundBegins& event);
  Actions note_spawned(const WorkerSpawned& event, TimePoint now);
  Actions note_exit(const WorkerExited& event, TimePoint now);
  Actions note_suspended(const WorkersSuspended& event);
  Actions note_last_success(const WorkerExited& event, TimePoint now);
  Actions stop_for_exit(const WorkerExited& event, TimePoint now);
  Actions wait_for_cause(const WorkerExited& event, TimePoint now);
  Actions stop_for_blame(TimePoint now);
  Actions stop_for_blame_and_leave(const Signalled& event, TimePoint now);
  Actions stop_for_blame_and_time(TimePoint now);
  Actions stop_for_spawn(const SpawnFailed& event, TimePoint now);
  Actions stop_for_signal(const Signalled& event, TimePoint now);
  Actions stop_for_job_timeout(TimePoint now);
  Actions stop_for_round(const RoundStopped& event, TimePoint now);
  Actions stop_for_lease(const LeaseLost& event, TimePoint now);
  Actions stop_for_rendezvous(const RendezvousLost& event, TimePoint now);
  Actions stop_for_job_end(const JobEnded& event, TimePoint now);
  Actions kill_for_lease(const LeaseLost& event, TimePoint now);
  Actions kill_after_grace(TimePoint now);
  Actions kill_for_signal(const Signalled& event, TimePoint now);
  Actions note_consequence(const WorkerExited& event, TimePoint now);
  Actions note_last_consequence(const WorkerExited& event, TimePoint now);
  Actions note_signal(const Signalled& event, TimePoint now);
  Actions note_job_timeout();
  Actions note_job_end(const JobEnded& event);
  Actions note_restart();
  Actions note_round_failed(const RendezvousLost& event);
  Actions sweep_at_once(const LeaseLost& event);
  Actions give_up_on_stuck();
  Actions publish_success();
  Actions decline_round();
  Actions decline_last_round();
  Actions join_again();
  Actions finish();
  Actions finish_beside_survivors(const Swept& event);
  Actions finish_for_signal(const Signalled& event);
  Actions finish_for_noted_signal();
  Actions finish_for_job_timeout();
  Actions finish_for_rendezvous(const RendezvousLost& event);
  Actions finish_for_job_end(const JobEnded& event);

  void record_exit(const WorkerExited& event, TimePoint now);
  void accuse(Blame blame);
  Actions reconsider(LocalRank ended);
  [[nodiscard]] bool failed_by_itself() const;
  void set_reason(StopReason reason, std::string why, int exit_code);
  Actions stop_for_others(const std::string& why, TimePoint now);
  Actions stop_group(int signal, TimePoint now);
  Actions kill_group(const std::string& cause, TimePoint now);
  Actions sweep();
  [[nodiscard]] PublishFailure publish_failure() const;
  void forbid_restart(std::string why);
  void forbid_restart_after(const Signalled& event);
  /// Whether all that have failed by themselves were ended by the same signal, just now: who sent it to them has sent
  /// it to us as well. `ddprun drain` signals the launcher alone.
  [[nodiscard]] bool is_sent_to_all(const Signalled& event, TimePoint now) const;
  void acquit();
  void note_end(std::string why);
  void note_late_end(const std::string& why);
  void call_final(std::string why);
  [[nodiscard]] std::string describe_job_timeout() const;
  [[nodiscard]] PublishFailure publish_job_timeout() const;
  [[nodiscard]] int code_of_signal(const Signalled& event) const;

  SupervisorOptions options_;
  State state_ = State::kRendezvous;
  std::vector<SupervisedWorker> workers_;
  StopReason reason_ = StopReason::kSucceeded;
  std::string why_;
  std::string story_;  // of the step being made
  std::optional<LocalRank> root_cause_;
  std::optional<LocalRank> victim_;  // who lost a root cause that left with 0 or stood still
  std::optional<Error> error_;
  int exit_code_ = 0;
  int stop_signal_ = 0;
  bool is_restart_granted_ = false;  // after the last generation; none has begun since
  bool has_stuck_ = false;           // a worker was given up
  int signals_received_ = 0;
  Signalled noted_signal_;         // the last that came while we were stopping, or all was done
  bool is_time_over_ = false;      // and the coordinator has been told
  std::string final_because_;      // why a restart would not help, when this generation's failure says so
  std::string restart_forbidden_;  // why, when something forbade it
  bool end_is_told_ = false;       // by the coordinator, and nothing of ours forbade it before
  std::string why_no_restart_;
};

/// What the table says about a state and an event, for tests: its rows in order, or why there are none.
struct TableEntry {
  enum class Kind { kRows, kIgnored, kBug, kMissing };
  Kind kind = Kind::kMissing;
  bool is_total = false;  ///< kRows: the last row has no guard
  std::string_view why;   ///< kIgnored, kBug
};
TableEntry table_entry(State state, EventKind event);

}  // namespace ddprun::launcher
