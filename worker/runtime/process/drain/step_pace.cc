#include "worker/runtime/process/drain/step_pace.h"

#include <algorithm>
#include <cmath>

namespace ddprun::runtime {
namespace {

constexpr int kPatienceInSteps = 5;
constexpr std::int64_t kLeastMargin = 2;
constexpr double kMostMargin = 1e6;
constexpr double kWeightOfLast = 0.1;

}  // namespace

void StepPace::step_done(TimePoint now) {
  if (last_step_) {
    const double seconds = to_seconds(now - *last_step_);
    const double counted = usual_s_ == 0 ? seconds : std::min(seconds, 2 * usual_s_);
    usual_s_ = usual_s_ == 0 ? seconds : (1 - kWeightOfLast) * usual_s_ + kWeightOfLast * counted;
  }
  last_step_ = now;
  progress(now);
}

void StepPace::progress(TimePoint now) {
  if (last_progress_ && !is_taking_time_) longest_ = std::max(longest_, now - *last_progress_);
  last_progress_ = now;
  is_taking_time_ = false;
}

void StepPace::measure_step(TimePoint now) {
  if (last_progress_ && !is_taking_time_) longest_ = std::max(longest_, now - *last_progress_);
  is_taking_time_ = true;
}

std::int64_t StepPace::margin(Duration spread) const {
  const double steps = to_seconds(spread) / std::max(usual_s_, 1e-6);
  return kLeastMargin + std::llround(std::min(steps, kMostMargin));
}

bool StepPace::is_stuck(Duration patience, TimePoint now) const {
  if (is_taking_time_ || !last_progress_) return false;
  return now > *last_progress_ + std::max(patience, kPatienceInSteps * longest_);
}

}  // namespace ddprun::runtime
