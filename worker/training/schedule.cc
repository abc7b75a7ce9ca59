#include "worker/training/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ddprun::training {

double learning_rate_factor(const ScheduleConfig& schedule, const JobLength& length, std::int64_t step) {
  if (step < schedule.warmup_steps) {
    return static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps + 1);
  }
  if (schedule.type == "cosine") {
    const std::int64_t span = std::max<std::int64_t>(1, length.total_steps - 1 - schedule.warmup_steps);
    const double done =
        std::min(1.0, static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(span));
    return schedule.final_factor +
           (1 - schedule.final_factor) * 0.5 * (1 + std::cos(std::numbers::pi * done));
  }
  if (schedule.type == "step") {
    const std::int64_t epoch = step / length.steps_per_epoch;
    return std::pow(schedule.gamma, static_cast<double>(epoch / schedule.step_epochs));
  }
  return 1;
}

}  // namespace ddprun::training
