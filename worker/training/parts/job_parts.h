#pragma once

#include "worker/training/parts/optimizers.h"
#include "worker/training/parts/schedule.h"
#include <ddprun/trainer/registry.h>

namespace ddprun::training {

/// Everything that a job file can name.
struct JobParts {
  ModelRegistry models{"model"};
  DataRegistry data{"data source"};
  TaskRegistry tasks{"task"};
  OptimizerRegistry optimizers{"optimizer"};
  DecayRegistry schedules{"schedule"};
};

/// With all that ddprun brings.
JobParts built_in_parts();

}  // namespace ddprun::training
