#include "launcher/report/outcome.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace ddprun::launcher {

bool WorkerOutcome::is_killed_for_hang() const {
  return !hang.reason.empty() && status && status->is_killed() && status->signal() == SIGKILL;
}

std::string_view to_string(EndKind end_kind) {
  switch (end_kind) {
    case EndKind::kSucceeded:
      return "succeeded";
    case EndKind::kRootCause:
      return "root cause";
    case EndKind::kConsequence:
      return "consequence";
    case EndKind::kNotEnded:
      return "not ended";
    case EndKind::kNotStarted:
      return "not started";
  }
  return "?";
}

std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::kSucceeded:
      return "succeeded";
    case StopReason::kWorkerFailed:
      return "worker failed";
    case StopReason::kSpawnFailed:
      return "spawn failed";
    case StopReason::kSignal:
      return "signal";
    case StopReason::kJobTimeout:
      return "job timeout";
    case StopReason::kRoundStopped:
      return "round stopped";
    case StopReason::kRendezvousFailed:
      return "rendezvous failed";
  }
  return "?";
}

void forget_old_words(JobOutcome& outcome) {
  std::vector<GenerationOutcome>& all = outcome.generations;
  const auto failed = std::find_if(all.rbegin(), all.rend(), [](const GenerationOutcome& each) {
    return each.root_cause || each.told_cause;
  });
  for (auto each = all.rbegin(); each != all.rend(); ++each) {
    if (each == all.rbegin() || each == failed) continue;
    for (WorkerOutcome& worker : each->workers) worker.stderr_tail = {}, worker.traceback = {};
    if (each->told_cause) each->told_cause->account = {};
  }
}

void settle_blame(GenerationOutcome& generation, std::optional<membership::NodeFailure>& told) {
  const std::optional<std::size_t> before = std::exchange(generation.root_cause, std::nullopt);
  for (std::size_t index = 0; index < generation.workers.size(); ++index) {
    WorkerOutcome& worker = generation.workers[index];
    const bool is_it = told && told->rank() == worker.rank;
    const bool is_success = worker.status && worker.status->is_success();
    if (is_it) worker.end_kind = EndKind::kRootCause;
    // Of one that left or stood still, what the coordinator says is more: who lost it.
    const bool is_behind = told && (told->has_left || told->stood_still);
    // How it ended afterwards, of our signal, says nothing of that.
    if (is_it) worker.was_suspended = told->stood_still;
    if (is_it && (before == index || !is_behind)) {
      generation.root_cause = index;
    } else if (!is_it && before == index) {
      worker.end_kind = is_success ? EndKind::kSucceeded : EndKind::kConsequence;
    }
  }
  if (generation.root_cause != before) generation.victim.reset();
  if (generation.root_cause) told.reset();
}

void note_restart(JobOutcome& outcome, const membership::Restart& restart) {
  outcome.granted_restart.emplace().why = restart.why;
  if (restart.number > 0) ++outcome.restarts_used;  // changes of membership cost nothing
  GenerationOutcome* const last = outcome.generations.empty() ? nullptr : &outcome.generations.back();
  if (last == nullptr || membership::restart_count(last->generation) + 1 != restart.restart_count) {
    outcome.granted_restart->cause = restart.root_cause;
    return;
  }
  last->restart_why = restart.why;
  last->told_cause = restart.root_cause;
  settle_blame(*last, last->told_cause);
}

void note_bad_end(JobOutcome& outcome) {
  std::optional<membership::NodeFailure>& told = outcome.told_cause;
  if (told) {
    outcome.granted_restart.reset();
    outcome.refusal = told->final_because;
  }
  if (outcome.granted_restart || outcome.generations.empty()) return;
  GenerationOutcome& last = outcome.generations.back();
  if (told && told->generation != last.generation) return;  // this node was a spare in that one
  settle_blame(last, told);
  last.told_cause = told;
}

}  // namespace ddprun::launcher
