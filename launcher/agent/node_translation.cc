#include "launcher/agent/node_translation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <variant>

namespace ddprun::launcher {

LocalFailure failure_of(const PublishFailure& action, const Supervisor& supervisor) {
  LocalFailure failure;
  failure.why = action.why;
  failure.exit_code = action.exit_code;
  failure.final_because = action.final_because;
  if (action.workers.empty()) return failure;
  const SupervisedWorker& guilty =
      supervisor.workers()[static_cast<std::size_t>(action.workers.front().value())];
  failure.worker.emplace().rank = guilty.rank;
  failure.has_left = guilty.status && guilty.status->is_success();
  failure.weight = failure.has_left ? Weight::kSymptom : guilty.ending.weight;
  return failure;
}

namespace {

std::int64_t unix_time(std::chrono::system_clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

}  // namespace

membership::NodeFailure to_membership(const LocalFailure& failure) {
  const Account& account = failure.account;
  if (!failure.worker) {
    return {.exit_code = std::clamp(failure.exit_code, 1, 255),
            .what = failure.why,
            .final_because = failure.final_because};
  }
  const std::optional<ExitStatus>& status = failure.worker->status;
  const bool is_traceback = !account.traceback.empty();
  return {.rank = failure.worker->rank,
          .local_rank = failure.worker->local_rank,
          .pid = failure.worker->pid,
          .exit_code = std::clamp(failure.exit_code, 1, 255),
          .code = status && !status->is_killed() ? std::optional(status->code()) : std::nullopt,
          .signal = status ? status->signal() : 0,
          .started = unix_time(failure.worker->started_wall),
          .ended = status ? unix_time(failure.worker->ended_wall) : 0,
          .what = failure.why,
          .error_file = failure.worker->error_file,
          .error_message = account.error_message,
          .error_stack = account.error_stack,
          .diagnosis = account.diagnosis,
          // A traceback says more than its last lines, and there is room for one of them.
          .stderr_tail = is_traceback ? fmt::format("{}\n", fmt::join(account.traceback, "\n"))
                                      : failure.speaker().stderr_tail,
          .is_traceback = is_traceback,
          .final_because = failure.final_because,
          .weight = failure.weight,
          .has_left = failure.has_left,
          .victim = failure.victim ? std::optional(failure.victim->rank) : std::nullopt};
}

// The first round is joined by connecting. Later, to have no worker left is to ask for the next one.
void tell_member(membership::MemberWords& member, const Action& action,
                 const membership::NodeFailure& failure) {
  if (std::holds_alternative<JoinRound>(action) || std::holds_alternative<Finish>(action))
    member.workers_stopped();
  if (std::holds_alternative<PublishFailure>(action)) member.workers_failed(failure);
  if (const auto* const leaving = std::get_if<PublishLeaving>(&action)) member.leave(leaving->signal);
  if (std::holds_alternative<PublishSuccess>(action)) member.workers_succeeded();
}

RoundBegins round_begins(const membership::Round& round) {
  return {.base_rank = round.seat.base_rank, .valid_until = round.valid_until};
}

}  // namespace ddprun::launcher
