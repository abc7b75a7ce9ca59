#pragma once

#include <ddprun/module_view.h>
#include <ddprun/optim.h>
#include <ddprun/trainer/registry.h>

#include <functional>
#include <memory>
#include <vector>

namespace ddprun::training {

/// Updates `parameters`, each once, in the model's order.
using OptimizerFactory = std::function<std::unique_ptr<FusedOptimizer>(
    const Options& options, const std::vector<NamedTensor>& parameters)>;
using OptimizerRegistry = Registry<OptimizerFactory>;

/// sgd, adam, adamw: ATen's fused kernels, with the arithmetic of PyTorch's optimizers under fused=True.
void register_optimizers(OptimizerRegistry& optimizers);

}  // namespace ddprun::training
