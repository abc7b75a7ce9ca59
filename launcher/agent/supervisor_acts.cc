#include "launcher/agent/supervisor.h"
#include "launcher/agent/worker_end.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/format_duration.h"
#include "rendezvous/base/signal_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

// What the rows of the table in supervisor.cc do, and the facts that their guards ask for.

namespace ddprun::launcher {
namespace {

constexpr const char* kTimeIsOver = "--job-timeout is over";
// From SIGKILL to giving a worker up as stuck in the kernel.
constexpr Duration kReapLimit = std::chrono::seconds(5);

// From the first process of a job to the last, for who sends them all a signal.
constexpr Duration kSameHand = std::chrono::seconds(1);

std::string count_workers(std::size_t count) {
  return fmt::format("{} worker{}", count, count == 1 ? "" : "s");
}

/// Whom the others are told of.
std::vector<LocalRank> accused(std::optional<LocalRank> guilty, std::optional<LocalRank> victim) {
  std::vector<LocalRank> workers;
  if (guilty) workers.push_back(*guilty);
  if (victim) workers.push_back(*victim);
  return workers;
}

/// Only a drain has an exit code of its own.
bool is_drain(const Signalled& event) { return event.exit_code != 0; }

std::string received(const Signalled& event) {
  return fmt::format("received {}{}", signal_name(event.signal), event.sender);
}

void append(std::vector<Action>& actions, const std::vector<Action>& more) {
  actions.insert(actions.end(), more.begin(), more.end());
}

}  // namespace

int Supervisor::alive_count() const {
  return static_cast<int>(
      std::count_if(workers_.begin(), workers_.end(), [](const auto& w) { return w.is_alive; }));
}

bool Supervisor::is_last_alive(LocalRank worker) const {
  const auto index = static_cast<std::size_t>(worker.value());
  return alive_count() == 1 && workers_[index].is_alive;
}

std::vector<LocalRank> Supervisor::alive() const {
  std::vector<LocalRank> result;
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    if (workers_[index].is_alive) result.emplace_back(static_cast<int>(index));
  }
  return result;
}

SupervisedWorker& Supervisor::worker(LocalRank local_rank) {
  const auto index = static_cast<std::size_t>(local_rank.value());
  DDPRUN_CHECK(index < workers_.size(), "a local rank is below the local world size");
  return workers_[index];
}

Supervisor::Actions Supervisor::begin_generation(const RoundBegins& event) {
  workers_.assign(static_cast<std::size_t>(options_.local_world_size.value()), SupervisedWorker{});
  int rank = event.round.seat.base_rank.value();
  for (SupervisedWorker& fresh : workers_) fresh.rank = Rank(rank++);
  reason_ = StopReason::kSucceeded;
  why_.clear();
  root_cause_.reset();
  victim_.reset();
  error_.reset();
  exit_code_ = exit_code::kOk;
  final_because_.clear();
  is_restart_granted_ = false;
  has_stuck_ = false;
  why_no_restart_.clear();
  story_ = "starting " + count_workers(workers_.size());
  return {SpawnWorkers{}};
}

Supervisor::Actions Supervisor::note_spawned(const WorkerSpawned& event, TimePoint now) {
  SupervisedWorker& spawned = worker(event.local_rank);
  spawned.pid = event.pid;
  spawned.is_alive = true;
  spawned.started_at = now;
  if (state_ == State::kRunning) story_ = count_workers(workers_.size()) + " running";
  return {};
}

void Supervisor::record_exit(const WorkerExited& event, TimePoint now) {
  SupervisedWorker& ended = worker(event.local_rank);
  ended.is_alive = false;
  ended.status = event.status;
  ended.ending = event.ending;
  ended.ended_at = now;
  ended.stopped_with = event.ending.was_over ? std::nullopt : signal_before(ended, event.status);
  const bool was_stopped = ended.stopped_with.has_value() || reason_ != StopReason::kSucceeded;
  // Who stood still is blamed before it ends.
  if (root_cause_ != event.local_rank)
    ended.end_kind = event.status.is_success() ? EndKind::kSucceeded : EndKind::kConsequence;
  story_ = describe_end(ended);
  if (was_stopped && !event.status.is_success()) story_ += " (consequence)";
}

Supervisor::Actions Supervisor::note_suspended(const WorkersSuspended& event) {
  for (const LocalRank local_rank : event.workers) worker(local_rank).was_suspended = true;
  return {};
}

Weight Supervisor::blamed_weight() const {
  if (!root_cause_) return Weight::kCause;
  if (victim_) return Weight::kSymptom;
  return workers_[static_cast<std::size_t>(root_cause_->value())].ending.weight;
}

std::optional<Rank> Supervisor::blamed_rank() const {
  if (!root_cause_) return std::nullopt;
  return workers_[static_cast<std::size_t>(root_cause_->value())].rank;
}

void Supervisor::accuse(Blame blame) {
  acquit();
  root_cause_ = blame.guilty;
  victim_ = blame.victim;
  SupervisedWorker& guilty = worker(blame.guilty);
  guilty.end_kind = EndKind::kRootCause;
  guilty.was_suspended = stood_still(guilty) && blame.victim.has_value();
  set_reason(StopReason::kWorkerFailed, std::move(blame.why), blame.exit_code.value_or(exit_code_));
  if (!blame.exit_code) return;
  const std::vector<int>& finals = options_.no_restart_exit_codes;
  const int code = worker(blame.victim.value_or(blame.guilty)).status->code();
  if (std::find(finals.begin(), finals.end(), code) != finals.end()) {
    call_final(
        fmt::format("exit code {} means that a restart will not help (--no-restart-exit-codes)", code));
  }
}

// The group is being stopped, and one more has ended.
Supervisor::Actions Supervisor::reconsider(LocalRank ended) {
  const bool is_by_worker = reason_ == StopReason::kWorkerFailed && root_cause_;
  if (!is_by_worker && reason_ != StopReason::kRoundStopped) return {};
  std::optional<Blame> better = launcher::reconsider(workers_, root_cause_, ended);
  if (!better) return {};
  accuse(std::move(*better));
  if (is_by_worker) story_ += "; it had failed before";
  return {publish_failure()};
}

PublishFailure Supervisor::publish_failure() const {
  return {.workers = accused(root_cause_, victim_),
          .exit_code = exit_code_,
          .why = why_,
          .final_because = final_because_};
}

Supervisor::Actions Supervisor::note_exit(const WorkerExited& event, TimePoint now) {
  record_exit(event, now);
  return {};
}

Supervisor::Actions Supervisor::note_last_success(const WorkerExited& event, TimePoint now) {
  record_exit(event, now);
  story_ += "; all workers succeeded";
  return sweep();
}

void Supervisor::set_reason(StopReason reason, std::string why, int exit_code) {
  reason_ = reason;
  why_ = std::move(why);
  exit_code_ = exit_code;
  story_ = why_;
}

Supervisor::Actions Supervisor::stop_for_exit(const WorkerExited& event, TimePoint now) {
  record_exit(event, now);
  accuse(blame(workers_));
  return stop_group(SIGTERM, now);
}

Supervisor::Actions Supervisor::wait_for_cause(const WorkerExited& event, TimePoint now) {
  record_exit(event, now);
  story_ += fmt::format("; waiting up to {} for the cause", format_duration(options_.blame_window));
  return {SetDeadline{.deadline = DeadlineKind::kBlame, .at = now + options_.blame_window}};
}

Supervisor::Actions Supervisor::stop_for_blame(TimePoint now) {
  accuse(blame(workers_));
  return stop_group(SIGTERM, now);
}

Supervisor::Actions Supervisor::stop_for_blame_and_leave(const Signalled& event, TimePoint now) {
  accuse(blame(workers_));
  ++signals_received_;
  noted_signal_ = event;
  forbid_restart_after(event);
  Actions actions{PublishLeaving{event.signal}};
  append(actions, stop_group(SIGTERM, now));
  return actions;
}

Supervisor::Actions Supervisor::stop_for_blame_and_time(TimePoint now) {
  accuse(blame(workers_));
  if (!options_.has_peers) call_final(kTimeIsOver);
  Actions actions = stop_group(SIGTERM, now);
  if (options_.has_peers) actions.emplace_back(publish_job_timeout());
  return actions;
}

Supervisor::Actions Supervisor::stop_for_spawn(const SpawnFailed& event, TimePoint now) {
  worker(event.local_rank).spawn_error = event.error;
  worker(event.local_rank).end_kind = EndKind::kRootCause;
  root_cause_ = event.local_rank;
  set_reason(
      StopReason::kSpawnFailed,
      fmt::format("{} could not be started: {}", name_of(worker(event.local_rank)), event.error.message()),
      to_exit_code(event.error.code()));
  // What the machine had not enough of this time it may have the next time.
  const ErrorCode code = event.error.code();
  if (code == ErrorCode::kNotFound || code == ErrorCode::kCannotExecute) {
    call_final("a program that cannot be started will not start the next time");
  }
  return stop_group(SIGTERM, now);
}

Supervisor::Actions Supervisor::stop_for_signal(const Signalled& event, TimePoint now) {
  ++signals_received_;
  stop_signal_ = event.signal;
  set_reason(StopReason::kSignal, received(event), code_of_signal(event));
  forbid_restart_after(event);
  return stop_group(event.signal, now);
}

Supervisor::Actions Supervisor::stop_for_job_timeout(TimePoint now) {
  set_reason(StopReason::kJobTimeout, describe_job_timeout(), exit_code::kTempFail);
  call_final(kTimeIsOver);
  return stop_group(SIGTERM, now);
}

Supervisor::Actions Supervisor::stop_for_round(const RoundStopped& event, TimePoint now) {
  return stop_for_others(event.why, now);
}

Supervisor::Actions Supervisor::stop_for_lease(const LeaseLost& event, TimePoint now) {
  return stop_for_others(event.why, now);
}

// The job's code is told with its end; until then nobody needs it.
Supervisor::Actions Supervisor::stop_for_others(const std::string& why, TimePoint now) {
  set_reason(StopReason::kRoundStopped, why, exit_code::kTempFail);
  Actions actions;
  // What has ended here may explain what ended there.
  if (const std::optional<Blame> ours = blame_until_now(workers_)) {
    actions.emplace_back(PublishFailure{.workers = accused(ours->guilty, ours->victim),
                                        .exit_code = ours->exit_code.value_or(0),
                                        .why = ours->why});
  }
  append(actions, stop_group(SIGTERM, now));
  return actions;
}

Supervisor::Actions Supervisor::stop_for_rendezvous(const RendezvousLost& event, TimePoint now) {
  error_ = event.error;
  set_reason(StopReason::kRendezvousFailed, event.error.message(), to_exit_code(event.error.code()));
  forbid_restart("the rendezvous is lost");
  return stop_group(SIGTERM, now);
}

Supervisor::Actions Supervisor::stop_for_job_end(const JobEnded& event, TimePoint now) {
  set_reason(StopReason::kRoundStopped, event.end.why, event.end.exit_code);
  note_end(event.end.why);
  return stop_group(SIGTERM, now);
}

// The common part of every stop: tell the other nodes, ask our workers to end, and give them until the
// deadline.
Supervisor::Actions Supervisor::stop_group(int signal, TimePoint now) {
  Actions actions;
  if (reason_ == StopReason::kSignal) {
    actions.emplace_back(PublishLeaving{stop_signal_});
  } else if (reason_ != StopReason::kRoundStopped && reason_ != StopReason::kRendezvousFailed) {
    actions.emplace_back(publish_failure());
  }
  const std::vector<LocalRank> targets = alive();
  if (targets.empty()) {
    append(actions, sweep());
    return actions;
  }
  for (const LocalRank target : targets) worker(target).stopped_with = signal;
  story_ += fmt::format("; sending {} to {}, {} of grace", signal_name(signal), count_workers(targets.size()),
                        format_duration(options_.grace));
  actions.emplace_back(EndWorkers{.workers = targets, .signal = signal});
  actions.emplace_back(SetDeadline{.deadline = DeadlineKind::kGrace, .at = now + options_.grace});
  return actions;
}

Supervisor::Actions Supervisor::note_consequence(const WorkerExited& event, TimePoint now) {
  record_exit(event, now);
  return reconsider(event.local_rank);
}

Supervisor::Actions Supervisor::note_last_consequence(const WorkerExited& event, TimePoint now) {
  record_exit(event, now);
  Actions actions = reconsider(event.local_rank);
  append(actions, sweep());
  // The lease is lost, and they had ended before.
  if (reason_ == StopReason::kRoundStopped && have_succeeded_unasked(workers_)) {
    set_reason(StopReason::kSucceeded, {}, exit_code::kOk);
    why_no_restart_.clear();
    story_ = describe_end(worker(event.local_rank)) + "; all workers had succeeded";
  }
  return actions;
}

Supervisor::Actions Supervisor::note_signal(const Signalled& event, TimePoint now) {
  ++signals_received_;
  noted_signal_ = event;
  if (reason_ == StopReason::kSucceeded) {
    story_ = received(event) + " when all was done";
    return {};
  }
  if (reason_ == StopReason::kRoundStopped) exit_code_ = code_of_signal(event);
  // What may have been caused elsewhere is less of a reason: for the others, or where it came from the same hand.
  const bool is_cause = reason_ == StopReason::kWorkerFailed && blamed_weight() == Weight::kCause;
  const bool is_same = is_sent_to_all(event, now);
  if ((options_.has_peers || is_same) && reason_ == StopReason::kWorkerFailed && !is_cause) {
    if (is_same) acquit();
    stop_signal_ = event.signal;
    set_reason(StopReason::kSignal, received(event), code_of_signal(event));
  }
  forbid_restart_after(event);
  story_ = fmt::format("{} while stopping: there will be no restart{}", received(event),
                       state_ == State::kDraining ? "; Ctrl-C kills the workers at once" : "");
  return {PublishLeaving{event.signal}};
}

// Of several nodes the coordinator ends the job, also where this one has done its part.
Supervisor::Actions Supervisor::note_job_timeout() {
  const bool is_done = reason_ == StopReason::kSucceeded;
  const bool ends_anyway = !restart_forbidden_.empty() || signals_received_ > 0;
  if (ends_anyway || (is_done && !options_.has_peers)) {
    story_ = fmt::format("{} while this node ends", kTimeIsOver);
    return {};
  }
  story_ = is_done ? describe_job_timeout()
                   : fmt::format("{} while the job is being stopped: there will be no restart", kTimeIsOver);
  if (final_because_.empty()) call_final(kTimeIsOver);
  if (!options_.has_peers) return {};
  is_time_over_ = true;
  return {publish_job_timeout()};
}

PublishFailure Supervisor::publish_job_timeout() const {
  return {.exit_code = exit_code::kTempFail, .why = describe_job_timeout(), .final_because = kTimeIsOver};
}

std::string Supervisor::describe_job_timeout() const {
  return fmt::format("the job is not done after {} (--job-timeout)", format_duration(*options_.job_timeout));
}

Supervisor::Actions Supervisor::note_job_end(const JobEnded& event) {
  note_end(event.end.why);
  exit_code_ = event.end.exit_code;
  story_ = event.end.why;
  return {};
}

// The failure of the last generation is no end any more.
Supervisor::Actions Supervisor::note_restart() {
  is_restart_granted_ = true;
  story_ = "another generation will follow";
  return {};
}

// The time that what the workers left behind was given is over, too; what they reached they have reached.
Supervisor::Actions Supervisor::sweep_at_once(const LeaseLost& event) {
  story_ = event.why;
  if (reason_ != StopReason::kSucceeded) return {};
  return {Sweep{.is_at_once = true}};
}

Supervisor::Actions Supervisor::note_round_failed(const RendezvousLost& event) {
  error_ = event.error;
  if (reason_ == StopReason::kSucceeded || reason_ == StopReason::kRoundStopped) {
    set_reason(StopReason::kRendezvousFailed, event.error.message(), to_exit_code(event.error.code()));
  }
  forbid_restart("the rendezvous is lost");
  story_ = event.error.message();
  return {};
}

Supervisor::Actions Supervisor::kill_after_grace(TimePoint now) {
  return kill_group(fmt::format("{} of grace are over", format_duration(options_.grace)), now);
}

Supervisor::Actions Supervisor::kill_for_signal(const Signalled& event, TimePoint now) {
  ++signals_received_;
  forbid_restart_after(event);
  return kill_group(received(event) + " a second time", now);
}

Supervisor::Actions Supervisor::kill_for_lease(const LeaseLost& event, TimePoint now) {
  if (reason_ == StopReason::kSucceeded)
    set_reason(StopReason::kRoundStopped, event.why, exit_code::kTempFail);
  return kill_group(event.why, now);
}

Supervisor::Actions Supervisor::kill_group(const std::string& cause, TimePoint now) {
  const std::vector<LocalRank> targets = alive();
  std::string names;
  for (const LocalRank target : targets) {
    worker(target).asked_with = std::exchange(worker(target).stopped_with, SIGKILL);
    names += fmt::format(" {}", worker(target).rank);
  }
  story_ = fmt::format("{}; sending SIGKILL to rank{}{}", cause, targets.size() == 1 ? "" : "s", names);
  return {EndWorkers{.workers = targets, .signal = SIGKILL},
          SetDeadline{.deadline = DeadlineKind::kReap, .at = now + kReapLimit}};
}

Supervisor::Actions Supervisor::give_up_on_stuck() {
  const std::vector<LocalRank> stuck = alive();
  std::string names;
  for (const LocalRank target : stuck) {
    worker(target).is_alive = false;
    if (root_cause_ != target) worker(target).end_kind = EndKind::kNotEnded;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(worker(target)));
  }
  has_stuck_ = true;
  forbid_restart(fmt::format("{} did not end on SIGKILL", names));
  story_ = fmt::format("{} did not end within {} of SIGKILL; leaving without waiting", names,
                       format_duration(kReapLimit));
  Actions actions{NameStuck{stuck}};
  append(actions, sweep());
  return actions;
}

Supervisor::Actions Supervisor::sweep() { return {Sweep{.is_at_once = reason_ != StopReason::kSucceeded}}; }

// Of several nodes the coordinator ends the job, on all of them.
void Supervisor::call_final(std::string why) {
  final_because_ = std::move(why);
  if (!options_.has_peers) forbid_restart(final_because_);
}

bool Supervisor::is_sent_to_all(const Signalled& event, TimePoint now) const {
  return !is_drain(event) &&
         std::all_of(workers_.begin(), workers_.end(), [&](const SupervisedWorker& worker) {
           const bool has_failed = worker.status && !worker.status->is_success() && !worker.stopped_with;
           return !has_failed || (worker.status->is_killed() && worker.status->signal() == event.signal &&
                                  now - worker.ended_at <= kSameHand);
         });
}

/// Nobody is to blame any more.
void Supervisor::acquit() {
  if (root_cause_) {
    SupervisedWorker& before = worker(*root_cause_);
    before.end_kind =
        before.status && before.status->is_success() ? EndKind::kSucceeded : EndKind::kConsequence;
  }
  root_cause_.reset();
  victim_.reset();
}

// Of several nodes only this one ends, if nobody could be asked to drain them all.
void Supervisor::forbid_restart_after(const Signalled& event) {
  const bool is_drained = is_drain(event) && !options_.has_peers && reason_ == StopReason::kSignal;
  forbid_restart(is_drained ? std::string(membership::kDrained)
                            : fmt::format("the launcher received {}", signal_name(event.signal)));
}

void Supervisor::forbid_restart(std::string why) {
  if (restart_forbidden_.empty()) restart_forbidden_ = std::move(why);
  why_no_restart_ = restart_forbidden_;
}

// The coordinator's word, in which the reasons of all nodes are.
void Supervisor::note_end(std::string why) {
  end_is_told_ = end_is_told_ || restart_forbidden_.empty();
  forbid_restart(std::move(why));
}

// What is reported is our last failure, for which a restart was granted: it is not what ended the job.
void Supervisor::note_late_end(const std::string& why) {
  if (is_restart_granted_ && root_cause_) forbid_restart(why);
}

int Supervisor::code_of_signal(const Signalled& event) const {
  if (event.exit_code != 0) return event.exit_code;
  return event.signal == SIGTERM ? options_.sigterm_exit_code : exit_code::kSignalBase + event.signal;
}

Supervisor::Actions Supervisor::publish_success() {
  story_ = "nothing is left of our workers";
  return {PublishSuccess{}};
}

Supervisor::Actions Supervisor::join_again() {
  story_ = "asking for another generation";
  return {JoinRound{}};
}

// We stood still, or were busy, since it was agreed on.
Supervisor::Actions Supervisor::decline_round() {
  story_ = "the round was agreed on too long ago: the others may have gone on; joining again";
  return {JoinRound{}};
}

// The order to begin it had been read before the coordinator was told that our time is over.
Supervisor::Actions Supervisor::decline_last_round() {
  story_ = fmt::format("{}: no workers are started again", kTimeIsOver);
  return {JoinRound{}};
}

Supervisor::Actions Supervisor::finish() {
  story_ = why_no_restart_;
  return {Finish{.exit_code = exit_code_}};
}

// The next generation would run beside them. Of several nodes the others hear no word that none is alive, and
// do what they do when a node is lost.
Supervisor::Actions Supervisor::finish_beside_survivors(const Swept& event) {
  if (!event.survivors.empty()) {
    forbid_restart(fmt::format("what a worker left behind did not end on SIGKILL: {}", event.survivors));
  }
  story_ = why_no_restart_;
  return {Finish{.exit_code = exit_code_, .leaves_survivors = true}};
}

Supervisor::Actions Supervisor::finish_for_signal(const Signalled& event) {
  ++signals_received_;
  stop_signal_ = event.signal;
  const std::string what = received(event);
  // While it is asked what follows on a failure, that is no other end than the one it has come to.
  if (options_.has_peers && failed_by_itself()) {
    story_ = what;
  } else {
    set_reason(StopReason::kSignal, what, code_of_signal(event));
  }
  forbid_restart_after(event);
  return {PublishLeaving{event.signal}, Finish{.exit_code = exit_code_}};
}

Supervisor::Actions Supervisor::finish_for_noted_signal() {
  Actions actions{PublishSuccess{}};
  append(actions, finish_for_signal(noted_signal_));
  return actions;
}

Supervisor::Actions Supervisor::finish_for_job_timeout() {
  Actions actions;
  if (options_.has_peers) actions.emplace_back(publish_job_timeout());
  // While it is asked what follows on a failure, that is no other end than the one it has come to.
  if (options_.has_peers && failed_by_itself()) {
    story_ = describe_job_timeout();
  } else {
    set_reason(StopReason::kJobTimeout, describe_job_timeout(), exit_code::kTempFail);
  }
  forbid_restart(kTimeIsOver);
  actions.emplace_back(Finish{.exit_code = exit_code_, .why = why_});
  return actions;
}

// What this node's last generation ended of.
bool Supervisor::failed_by_itself() const {
  if (is_restart_granted_) return false;
  return reason_ == StopReason::kSpawnFailed || reason_ == StopReason::kJobTimeout ||
         (reason_ == StopReason::kWorkerFailed && blamed_weight() == Weight::kCause);
}

// Whoever is to be asked what follows cannot be found: that is no other end than the one it has come to.
Supervisor::Actions Supervisor::finish_for_rendezvous(const RendezvousLost& event) {
  error_ = event.error;
  if (failed_by_itself()) {
    story_ = event.error.message();
    forbid_restart(event.error.message());
    return {Finish{.exit_code = exit_code_}};
  }
  set_reason(StopReason::kRendezvousFailed, event.error.message(), to_exit_code(event.error.code()));
  why_no_restart_.clear();
  note_late_end(event.error.message());
  return {Finish{.exit_code = exit_code_}};
}

Supervisor::Actions Supervisor::finish_for_job_end(const JobEnded& event) {
  if (event.end.exit_code == 0) {
    set_reason(StopReason::kSucceeded, {},
               exit_code::kOk);  // also when the others succeeded without us at last
    why_no_restart_.clear();
  } else {
    if (reason_ == StopReason::kSucceeded)
      set_reason(StopReason::kRoundStopped, event.end.why, event.end.exit_code);
    exit_code_ = event.end.exit_code;
    why_no_restart_ = event.end.why;
    note_late_end(event.end.why);
  }
  story_ = event.end.exit_code == 0 ? "the job succeeded" : event.end.why;
  return {Finish{.exit_code = exit_code_}};
}

}  // namespace ddprun::launcher
