#include "launcher/agent/supervisor.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/format_duration.h"
#include "rendezvous/base/signal_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

// What the rows of the table in supervisor.cc do, and the facts that their guards ask for.

namespace ddprun::launcher {
namespace {

constexpr const char* kTimeIsOver = "--job-timeout is over";

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

Supervisor::Actions Supervisor::begin_generation(const Event& event, TimePoint) {
  workers_.assign(static_cast<std::size_t>(options_.local_world_size.value()), SupervisedWorker{});
  int rank = event.base_rank.value();
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
  return {{.kind = ActionKind::kSpawn}};
}

Supervisor::Actions Supervisor::note_spawned(const Event& event, TimePoint now) {
  SupervisedWorker& spawned = worker(event.local_rank);
  spawned.pid = event.pid;
  spawned.is_alive = true;
  spawned.started_at = now;
  if (state_ == State::kRunning) story_ = count_workers(workers_.size()) + " running";
  return {};
}

void Supervisor::record_exit(const Event& event, TimePoint now) {
  SupervisedWorker& ended = worker(event.local_rank);
  ended.is_alive = false;
  ended.status = event.status;
  ended.ending = event.ending;
  ended.ended_at = now;
  ended.stopped_with = event.ending.was_over ? std::nullopt : signal_before(ended, event.status);
  const bool was_stopped = ended.stopped_with.has_value() || reason_ != StopReason::kSucceeded;
  ended.verdict = event.status.is_success() ? Verdict::kSucceeded : Verdict::kConsequence;
  story_ = describe_end(ended);
  if (was_stopped && !event.status.is_success()) story_ += " (consequence)";
}

Weight Supervisor::blamed_weight() const {
  if (!root_cause_) return Weight::kCause;
  return workers_[static_cast<std::size_t>(root_cause_->value())].ending.weight;
}

void Supervisor::accuse(Blame blame) {
  if (root_cause_) {
    SupervisedWorker& before = worker(*root_cause_);
    before.verdict =
        before.status && before.status->is_success() ? Verdict::kSucceeded : Verdict::kConsequence;
  }
  root_cause_ = blame.guilty;
  victim_ = blame.victim;
  SupervisedWorker& guilty = worker(blame.guilty);
  guilty.verdict = Verdict::kRootCause;
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
  if (!is_by_worker && reason_ != StopReason::kPeerFailed) return {};
  std::optional<Blame> better = launcher::reconsider(workers_, root_cause_, ended);
  if (!better) return {};
  accuse(std::move(*better));
  if (is_by_worker) story_ += "; it had failed before";
  return {{.kind = ActionKind::kPublishFailure,
           .workers = accused(root_cause_, victim_),
           .exit_code = exit_code_,
           .text = why_,
           .final_because = final_because_}};
}

Supervisor::Actions Supervisor::note_exit(const Event& event, TimePoint now) {
  record_exit(event, now);
  return {};
}

Supervisor::Actions Supervisor::note_last_success(const Event& event, TimePoint now) {
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

Supervisor::Actions Supervisor::stop_for_exit(const Event& event, TimePoint now) {
  record_exit(event, now);
  accuse(blame(workers_));
  return stop_group(SIGTERM, now);
}

Supervisor::Actions Supervisor::wait_for_cause(const Event& event, TimePoint now) {
  record_exit(event, now);
  story_ += fmt::format("; waiting up to {} for the cause", format_duration(options_.blame_window));
  return {{.kind = ActionKind::kSetDeadline,
           .deadline = DeadlineKind::kBlame,
           .at = now + options_.blame_window}};
}

Supervisor::Actions Supervisor::note_symptom(const Event& event, TimePoint now) {
  record_exit(event, now);
  return {};
}

Supervisor::Actions Supervisor::stop_for_blame(const Event& event, TimePoint now) {
  accuse(blame(workers_));
  Actions actions;
  if (event.kind == EventKind::kSignal) {
    ++signals_received_;
    noted_signal_ = event;
    forbid_restart(fmt::format("the launcher received {}", signal_name(event.signal)));
    actions.push_back({.kind = ActionKind::kPublishLeaving, .signal = event.signal});
  }
  const bool is_over = event.kind == EventKind::kJobTimeOver;
  if (is_over && !options_.has_peers) call_final(kTimeIsOver);
  const Actions stopping = stop_group(SIGTERM, now);
  actions.insert(actions.end(), stopping.begin(), stopping.end());
  if (is_over && options_.has_peers) actions.push_back(publish_job_timeout());
  return actions;
}

Supervisor::Actions Supervisor::stop_for_spawn(const Event& event, TimePoint now) {
  worker(event.local_rank).spawn_error = event.error;
  worker(event.local_rank).verdict = Verdict::kRootCause;
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

Supervisor::Actions Supervisor::stop_for_signal(const Event& event, TimePoint now) {
  ++signals_received_;
  stop_signal_ = event.signal;
  set_reason(StopReason::kSignal, fmt::format("received {}{}", signal_name(event.signal), event.text),
             code_of_signal(event));
  forbid_restart(fmt::format("the launcher received {}", signal_name(event.signal)));
  return stop_group(event.signal, now);
}

Supervisor::Actions Supervisor::stop_for_job_timeout(const Event&, TimePoint now) {
  set_reason(StopReason::kJobTimeout, describe_job_timeout(), exit_code::kTempFail);
  call_final(kTimeIsOver);
  return stop_group(SIGTERM, now);
}

Supervisor::Actions Supervisor::stop_for_peer(const Event& event, TimePoint now) {
  set_reason(StopReason::kPeerFailed, event.text, event.exit_code);
  Actions actions;
  // What has ended here may explain what ended there.
  if (const std::optional<Blame> ours = blame_until_now(workers_)) {
    actions.push_back({.kind = ActionKind::kPublishFailure,
                       .workers = accused(ours->guilty, ours->victim),
                       .exit_code = ours->exit_code.value_or(0),
                       .text = ours->why});
  }
  const Actions stopping = stop_group(SIGTERM, now);
  actions.insert(actions.end(), stopping.begin(), stopping.end());
  return actions;
}

Supervisor::Actions Supervisor::stop_for_round(const Event& event, TimePoint now) {
  error_ = event.error;
  set_reason(StopReason::kRendezvousFailed, event.error.message(), to_exit_code(event.error.code()));
  forbid_restart("the rendezvous is lost");
  return stop_group(SIGTERM, now);
}

Supervisor::Actions Supervisor::stop_for_job_end(const Event& event, TimePoint now) {
  set_reason(StopReason::kPeerFailed, event.text, event.exit_code);
  note_end(event.text);
  return stop_group(SIGTERM, now);
}

// The common part of every stop: tell the other nodes, ask our workers to end, and give them until the
// deadline.
Supervisor::Actions Supervisor::stop_group(int signal, TimePoint now) {
  Actions actions;
  if (reason_ == StopReason::kSignal) {
    actions.push_back({.kind = ActionKind::kPublishLeaving, .signal = stop_signal_});
  } else if (reason_ != StopReason::kPeerFailed && reason_ != StopReason::kRendezvousFailed) {
    actions.push_back({.kind = ActionKind::kPublishFailure,
                       .workers = accused(root_cause_, victim_),
                       .exit_code = exit_code_,
                       .text = why_,
                       .final_because = final_because_});
  }
  const std::vector<LocalRank> targets = alive();
  if (targets.empty()) {
    const Actions last = sweep();
    actions.insert(actions.end(), last.begin(), last.end());
    return actions;
  }
  for (const LocalRank target : targets) worker(target).stopped_with = signal;
  story_ += fmt::format("; sending {} to {}, {} of grace", signal_name(signal), count_workers(targets.size()),
                        format_duration(options_.grace));
  actions.push_back({.kind = ActionKind::kSignalGroups, .workers = targets, .signal = signal});
  actions.push_back(
      {.kind = ActionKind::kSetDeadline, .deadline = DeadlineKind::kGrace, .at = now + options_.grace});
  return actions;
}

Supervisor::Actions Supervisor::note_consequence(const Event& event, TimePoint now) {
  record_exit(event, now);
  return reconsider(event.local_rank);
}

Supervisor::Actions Supervisor::note_last_consequence(const Event& event, TimePoint now) {
  record_exit(event, now);
  Actions actions = reconsider(event.local_rank);
  const Actions last = sweep();
  actions.insert(actions.end(), last.begin(), last.end());
  // The lease is lost, and they had ended before.
  if (reason_ == StopReason::kPeerFailed && have_succeeded_unasked(workers_)) {
    set_reason(StopReason::kSucceeded, {}, exit_code::kOk);
    why_no_restart_.clear();
    story_ = describe_end(worker(event.local_rank)) + "; all workers had succeeded";
  }
  return actions;
}

Supervisor::Actions Supervisor::note_signal(const Event& event, TimePoint) {
  ++signals_received_;
  noted_signal_ = event;
  if (reason_ == StopReason::kSucceeded) {
    story_ = fmt::format("received {}{} when all was done", signal_name(event.signal), event.text);
    return {};
  }
  forbid_restart(fmt::format("the launcher received {}", signal_name(event.signal)));
  if (reason_ == StopReason::kPeerFailed) exit_code_ = code_of_signal(event);
  // To the others it is the reason then, too: what may have been caused elsewhere is less.
  if (options_.has_peers && reason_ == StopReason::kWorkerFailed && blamed_weight() != Weight::kCause) {
    stop_signal_ = event.signal;
    set_reason(StopReason::kSignal, fmt::format("received {}{}", signal_name(event.signal), event.text),
               code_of_signal(event));
  }
  story_ = fmt::format("received {}{} while stopping: there will be no restart{}", signal_name(event.signal),
                       event.text, state_ == State::kDraining ? "; Ctrl-C kills the workers at once" : "");
  return {{.kind = ActionKind::kPublishLeaving, .signal = event.signal}};
}

// Of several nodes the coordinator ends the job, also where this one has done its part.
Supervisor::Actions Supervisor::note_job_timeout(const Event&, TimePoint) {
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

Action Supervisor::publish_job_timeout() const {
  return {.kind = ActionKind::kPublishFailure,
          .exit_code = exit_code::kTempFail,
          .text = describe_job_timeout(),
          .final_because = kTimeIsOver};
}

std::string Supervisor::describe_job_timeout() const {
  return fmt::format("the job is not done after {} (--job-timeout)", format_duration(*options_.job_timeout));
}

Supervisor::Actions Supervisor::note_job_end(const Event& event, TimePoint) {
  note_end(event.text);
  exit_code_ = event.exit_code;
  story_ = event.text;
  return {};
}

// The failure of the last generation is no end any more.
Supervisor::Actions Supervisor::note_restart(const Event&, TimePoint) {
  is_restart_granted_ = true;
  story_ = "another generation will follow";
  return {};
}

// The time that what the workers left behind was given is over, too; what they reached they have reached.
Supervisor::Actions Supervisor::sweep_at_once(const Event& event, TimePoint) {
  story_ = event.text;
  if (reason_ != StopReason::kSucceeded) return {};
  return {{.kind = ActionKind::kSweep, .signal = SIGKILL}};
}

Supervisor::Actions Supervisor::note_round_failed(const Event& event, TimePoint) {
  error_ = event.error;
  if (reason_ == StopReason::kSucceeded || reason_ == StopReason::kPeerFailed) {
    set_reason(StopReason::kRendezvousFailed, event.error.message(), to_exit_code(event.error.code()));
  }
  forbid_restart("the rendezvous is lost");
  story_ = event.error.message();
  return {};
}

Supervisor::Actions Supervisor::kill(const Event& event, TimePoint now) {
  if (event.kind != EventKind::kSignal) {
    return kill_group(fmt::format("{} of grace are over", format_duration(options_.grace)), now);
  }
  ++signals_received_;
  forbid_restart(fmt::format("the launcher received {}", signal_name(event.signal)));
  return kill_group(fmt::format("received {}{} a second time", signal_name(event.signal), event.text), now);
}

Supervisor::Actions Supervisor::kill_for_lease(const Event& event, TimePoint now) {
  if (reason_ == StopReason::kSucceeded) set_reason(StopReason::kPeerFailed, event.text, event.exit_code);
  return kill_group(event.text, now);
}

Supervisor::Actions Supervisor::kill_group(const std::string& cause, TimePoint now) {
  const std::vector<LocalRank> targets = alive();
  std::string names;
  for (const LocalRank target : targets) {
    worker(target).asked_with = std::exchange(worker(target).stopped_with, SIGKILL);
    names += fmt::format(" {}", worker(target).rank);
  }
  story_ = fmt::format("{}; sending SIGKILL to rank{}{}", cause, targets.size() == 1 ? "" : "s", names);
  return {
      {.kind = ActionKind::kSignalGroups, .workers = targets, .signal = SIGKILL},
      {.kind = ActionKind::kSetDeadline, .deadline = DeadlineKind::kReap, .at = now + options_.reap_limit}};
}

Supervisor::Actions Supervisor::give_up_on_stuck(const Event&, TimePoint) {
  const std::vector<LocalRank> stuck = alive();
  std::string names;
  for (const LocalRank target : stuck) {
    worker(target).is_alive = false;
    worker(target).verdict = Verdict::kNotEnded;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(worker(target)));
  }
  has_stuck_ = true;
  forbid_restart(fmt::format("{} did not end on SIGKILL", names));
  story_ = fmt::format("{} did not end within {} of SIGKILL; leaving without waiting", names,
                       format_duration(options_.reap_limit));
  Actions actions{{.kind = ActionKind::kNameStuck, .workers = stuck}};
  const Actions last = sweep();
  actions.insert(actions.end(), last.begin(), last.end());
  return actions;
}

Supervisor::Actions Supervisor::sweep() {
  return {{.kind = ActionKind::kSweep, .signal = reason_ == StopReason::kSucceeded ? 0 : SIGKILL}};
}

// Of several nodes the coordinator ends the job, on all of them.
void Supervisor::call_final(std::string why) {
  final_because_ = std::move(why);
  if (!options_.has_peers) forbid_restart(final_because_);
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

int Supervisor::code_of_signal(const Event& event) const {
  if (event.exit_code != 0) return event.exit_code;
  return event.signal == SIGTERM ? options_.sigterm_exit_code : exit_code::kSignalBase + event.signal;
}

Supervisor::Actions Supervisor::publish_success(const Event&, TimePoint) {
  story_ = "nothing is left of our workers";
  return {{.kind = ActionKind::kPublishSuccess}};
}

Supervisor::Actions Supervisor::join_again(const Event&, TimePoint) {
  story_ = "asking for another generation";
  return {{.kind = ActionKind::kJoinRound}};
}

// We stood still, or were busy, since it was agreed on.
Supervisor::Actions Supervisor::decline_round(const Event&, TimePoint) {
  story_ = "the round was agreed on too long ago: the others may have gone on; joining again";
  return {{.kind = ActionKind::kJoinRound}};
}

// The order to begin it had been read before the coordinator was told that our time is over.
Supervisor::Actions Supervisor::decline_last_round(const Event&, TimePoint) {
  story_ = fmt::format("{}: no workers are started again", kTimeIsOver);
  return {{.kind = ActionKind::kJoinRound}};
}

Supervisor::Actions Supervisor::finish(const Event&, TimePoint) {
  story_ = why_no_restart_;
  return {{.kind = ActionKind::kFinish, .exit_code = exit_code_}};
}

// The next generation would run beside them. Of several nodes the others hear no word that none is alive, and
// do what they do when a node is lost.
Supervisor::Actions Supervisor::finish_beside_survivors(const Event& event, TimePoint) {
  if (!event.text.empty()) {
    forbid_restart(fmt::format("what a worker left behind did not end on SIGKILL: {}", event.text));
  }
  story_ = why_no_restart_;
  return {{.kind = ActionKind::kFinish, .exit_code = exit_code_, .leaves_survivors = true}};
}

Supervisor::Actions Supervisor::finish_for_signal(const Event& event, TimePoint) {
  ++signals_received_;
  stop_signal_ = event.signal;
  const std::string what = fmt::format("received {}{}", signal_name(event.signal), event.text);
  // While it is asked what follows on a failure, that is no other end than the one it has come to.
  if (options_.has_peers && failed_by_itself()) {
    story_ = what;
  } else {
    set_reason(StopReason::kSignal, what, code_of_signal(event));
  }
  forbid_restart(fmt::format("the launcher received {}", signal_name(event.signal)));
  return {{.kind = ActionKind::kPublishLeaving, .signal = event.signal},
          {.kind = ActionKind::kFinish, .exit_code = exit_code_}};
}

Supervisor::Actions Supervisor::finish_for_noted_signal(const Event&, TimePoint now) {
  const Actions leaving = finish_for_signal(noted_signal_, now);
  Actions actions{{.kind = ActionKind::kPublishSuccess}};
  actions.insert(actions.end(), leaving.begin(), leaving.end());
  return actions;
}

Supervisor::Actions Supervisor::finish_for_job_timeout(const Event&, TimePoint) {
  Actions actions;
  if (options_.has_peers) actions.push_back(publish_job_timeout());
  // While it is asked what follows on a failure, that is no other end than the one it has come to.
  if (options_.has_peers && failed_by_itself()) {
    story_ = describe_job_timeout();
  } else {
    set_reason(StopReason::kJobTimeout, describe_job_timeout(), exit_code::kTempFail);
  }
  forbid_restart(kTimeIsOver);
  actions.push_back({.kind = ActionKind::kFinish, .exit_code = exit_code_, .text = why_});
  return actions;
}

// What this node's last generation ended of.
bool Supervisor::failed_by_itself() const {
  if (is_restart_granted_) return false;
  return reason_ == StopReason::kSpawnFailed || reason_ == StopReason::kJobTimeout ||
         (reason_ == StopReason::kWorkerFailed && blamed_weight() == Weight::kCause);
}

// Whoever is to be asked what follows cannot be found: that is no other end than the one it has come to.
Supervisor::Actions Supervisor::finish_for_round(const Event& event, TimePoint) {
  error_ = event.error;
  if (failed_by_itself()) {
    story_ = event.error.message();
    forbid_restart(event.error.message());
    return {{.kind = ActionKind::kFinish, .exit_code = exit_code_}};
  }
  set_reason(StopReason::kRendezvousFailed, event.error.message(), to_exit_code(event.error.code()));
  why_no_restart_.clear();
  note_late_end(event.error.message());
  return {{.kind = ActionKind::kFinish, .exit_code = exit_code_}};
}

Supervisor::Actions Supervisor::finish_for_job_end(const Event& event, TimePoint) {
  if (event.exit_code == 0) {
    set_reason(StopReason::kSucceeded, {},
               exit_code::kOk);  // also when the others succeeded without us at last
    why_no_restart_.clear();
  } else {
    if (reason_ == StopReason::kSucceeded) set_reason(StopReason::kPeerFailed, event.text, event.exit_code);
    exit_code_ = event.exit_code;
    why_no_restart_ = event.text;
    note_late_end(event.text);
  }
  story_ = event.exit_code == 0 ? "the job succeeded" : event.text;
  return {{.kind = ActionKind::kFinish, .exit_code = exit_code_}};
}

}  // namespace ddprun::launcher
