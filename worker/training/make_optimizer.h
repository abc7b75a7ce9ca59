#pragma once

#include "worker/training/train_config.h"
#include <ddprun/optim.h>

#include <memory>
#include <vector>

namespace ddprun::training {

std::unique_ptr<FusedOptimizer> make_optimizer(const OptimizerConfig& config,
                                               std::vector<at::Tensor> parameters);

}  // namespace ddprun::training
