#include "rendezvous/membership/stop_cause.h"

#include "rendezvous/base/exit_codes.h"

#include <algorithm>
#include <utility>

namespace ddprun::membership {

void StopCause::blame(NodeFailure failure, std::string why) {
  // Whoever said that a restart will not help has said it of this generation, also if another failed before.
  if (failure_ && failure.final_because.empty()) failure.final_because = failure_->final_because;
  failure_ = std::move(failure);
  failed_ = why;
  why_ = std::move(why);
}

void StopCause::end_with(const JobEnd& end) {
  if (ending_) return;
  ending_ = end;
  ends_by_failure_ = failed_by_itself();
}

void StopCause::end_unless_failed(const JobEnd& end) {
  if (ending_) return;
  ending_ = end;
  ends_unless_failed_ = true;
}

std::optional<JobEnd> StopCause::ending() const {
  const bool is_second = ends_unless_failed_ && failure_;
  const bool may_be_explained = is_second && !failed_by_itself();
  if (const auto loss = may_be_explained ? explaining_loss() : std::nullopt) {
    return JobEnd{.exit_code = exit_code::kTempFail,
                  .why = *loss + "; " + ending_->why,
                  .restarts_used = ending_->restarts_used};
  }
  return ends_by_failure_ || is_second ? ended_by_failure() : ending_;
}

bool StopCause::is_explained_by(const NodeFailure& failure) const {
  if (!failure_) return !failure.final_because.empty() || (failure.weight == Weight::kCause && has_pause());
  if (failure.weight != failure_->weight) return failure.weight > failure_->weight;
  // Of two of its own workers a node knows which failed first, and tells of the other only if it was that.
  if (failure.node_rank == failure_->node_rank) return failure.rank() != failure_->rank();
  if (failure.stood_still) {
    const bool is_plain =
        failure_->weight == Weight::kSymptom && !failure_->has_left && !failure_->stood_still;
    return is_plain && (failure_->waited_in_vain || failure.waited_in_vain);
  }
  return failure.has_left && failure_->weight == Weight::kSymptom && !failure_->has_left;
}

bool StopCause::has_pause() const {
  return std::any_of(lost_.begin(), lost_.end(), [](const LostNode& lost) { return lost.is_by_pause; });
}

JobEnd StopCause::ended_by_failure() const {
  NodeFailure failure = *failure_;
  if (failure.final_because.empty() && ending_) failure.final_because = ending_->why;
  JobEnd end{.exit_code = failure.exit_code, .why = why_};
  if (!failure.final_because.empty()) end.why += "; " + failure.final_because;
  if (failure.worker) end.root_cause = std::move(failure);
  return end;
}

Conclusion StopCause::conclude(bool is_elastic) {
  Conclusion conclusion = choose(is_elastic);
  *this = StopCause();
  return conclusion;
}

std::optional<std::string> StopCause::explaining_loss() const {
  if (lost_.empty() || is_final()) return std::nullopt;
  // Of a pause no worker fails by itself, but with a symptom it may.
  const bool is_own = failed_by_itself();
  const auto cause = std::find_if(lost_.begin(), lost_.end(), [is_own](const LostNode& lost) {
    return !lost.was_there && !(is_own && lost.is_by_pause);
  });
  if (!failure_) return cause == lost_.end() ? lost_.front().what : cause->what;
  if (cause == lost_.end()) return std::nullopt;
  return cause->what + "; meanwhile " + failed_;
}

Conclusion StopCause::choose(bool is_elastic) const {
  using Kind = Conclusion::Kind;
  if (const std::optional<JobEnd> end = ending()) return {Kind::kEnd, *end};
  if (const auto loss = explaining_loss()) {
    if (is_elastic) return {Kind::kGoOn, {.why = *loss}};
    return {Kind::kRestart, {.exit_code = exit_code::kTempFail, .why = *loss}};
  }
  if (failure_) return {is_final() ? Kind::kEnd : Kind::kRestart, ended_by_failure()};
  return {Kind::kGoOn, {.why = why_}};
}

}  // namespace ddprun::membership
