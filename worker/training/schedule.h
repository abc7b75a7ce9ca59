#pragma once

#include "worker/training/train_config.h"

#include <cstdint>

namespace ddprun::training {

/// How long a job is, in steps: what a schedule depends on.
struct JobLength {
  std::int64_t steps_per_epoch = 1;
  std::int64_t total_steps = 1;
};

/// The factor on the base learning rate for the step with index `step` (0 = first).
///
/// Warm-up rises linearly and reaches 1 with step `warmup_steps`; then constant, cosine down to
/// `final_factor` at the last step, or `gamma` once more every `step_epochs` epochs.
double learning_rate_factor(const ScheduleConfig& schedule, const JobLength& length, std::int64_t step);

}  // namespace ddprun::training
