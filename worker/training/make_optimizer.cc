#include "worker/training/make_optimizer.h"

#include <utility>

namespace ddprun::training {

std::unique_ptr<FusedOptimizer> make_optimizer(const OptimizerConfig& config,
                                               std::vector<at::Tensor> parameters) {
  if (config.type == "sgd") {
    FusedSgdOptions options;
    options.lr = config.learning_rate;
    options.momentum = config.momentum;
    options.dampening = config.dampening;
    options.weight_decay = config.weight_decay;
    options.nesterov = config.nesterov;
    return std::make_unique<FusedSgd>(std::move(parameters), options);
  }
  FusedAdamOptions options;
  options.lr = config.learning_rate;
  options.beta1 = config.beta1;
  options.beta2 = config.beta2;
  options.eps = config.eps;
  options.weight_decay = config.weight_decay;
  options.amsgrad = config.amsgrad;
  options.decoupled_weight_decay = config.type == "adamw";
  return std::make_unique<FusedAdam>(std::move(parameters), options);
}

}  // namespace ddprun::training
