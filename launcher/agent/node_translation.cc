#include "launcher/agent/node_translation.h"

#include <algorithm>
#include <variant>

namespace ddprun::launcher {

membership::NodeFailure failure_of(const PublishFailure& action, const Supervisor& supervisor) {
  membership::NodeFailure failure{.exit_code = std::clamp(action.exit_code, 1, 255),
                                  .what = action.why,
                                  .final_because = action.final_because};
  if (action.workers.empty()) return failure;
  const auto worker = [&](LocalRank local_rank) -> const SupervisedWorker& {
    return supervisor.workers()[static_cast<std::size_t>(local_rank.value())];
  };
  const SupervisedWorker& guilty = worker(action.workers.front());
  failure.worker = membership::WorkerEnd{.rank = guilty.rank};
  failure.has_left = guilty.status && guilty.status->is_success();
  failure.stood_still = stood_still(guilty);
  failure.waited_in_vain = has_waited_in_vain(supervisor.workers());
  failure.weight = failure.has_left || failure.stood_still ? Weight::kSymptom : guilty.ending.weight;
  if (action.workers.size() > 1) failure.victim = worker(action.workers.back()).rank;
  return failure;
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

}  // namespace ddprun::launcher
