#include "launcher/agent/node_translation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <variant>

namespace ddprun::launcher {
namespace {

std::int64_t unix_time(std::chrono::system_clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

}  // namespace

membership::NodeFailure failure_of(const PublishFailure& action, const Supervisor& supervisor) {
  membership::NodeFailure failure{.exit_code = std::clamp(action.exit_code, 1, 255),
                                  .what = action.why,
                                  .final_because = action.final_because};
  if (action.workers.empty()) return failure;
  const auto worker = [&](LocalRank local_rank) -> const SupervisedWorker& {
    return supervisor.workers()[static_cast<std::size_t>(local_rank.value())];
  };
  const SupervisedWorker& guilty = worker(action.workers.front());
  failure.rank = guilty.rank;
  failure.has_left = guilty.status && guilty.status->is_success();
  failure.weight = failure.has_left ? Weight::kSymptom : guilty.ending.weight;
  if (action.workers.size() > 1) failure.victim = worker(action.workers.back()).rank;
  return failure;
}

void add_outcome(membership::NodeFailure& failure, const WorkerOutcome& guilty) {
  failure.local_rank = guilty.local_rank;
  failure.pid = guilty.pid;
  failure.started = unix_time(guilty.started_wall);
  failure.error_file = guilty.error_file;
  if (!guilty.status) return;
  if (!guilty.status->is_killed()) failure.code = guilty.status->code();
  failure.signal = guilty.status->signal();
  failure.ended = unix_time(guilty.ended_wall);
}

void add_words(membership::NodeFailure& failure, const WorkerOutcome& speaker, const Account& account) {
  failure.diagnosis = account.diagnosis;
  failure.error_message = account.error_message;
  failure.error_stack = account.error_stack;
  failure.is_traceback = !account.traceback.empty();
  // A traceback says more than its last lines, and there is room for one of them.
  failure.stderr_tail =
      failure.is_traceback ? fmt::format("{}\n", fmt::join(account.traceback, "\n")) : speaker.stderr_tail;
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
