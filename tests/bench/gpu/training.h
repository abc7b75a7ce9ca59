#pragma once

#include "tests/bench/gpu/on_card.h"

#include <set>
#include <string>

namespace ddprun::bench {

/// Steps of one model with one random batch, over and over; the same as in peers/gpu_step.py.
struct Training {
  Step step;
  std::function<double()> loss;  ///< of the last step; waits for the device
};

/// `model`: the trainer's "mlp" (784-256-128-10), "mnist_cnn" or "two_conv", or "resnet18" (3×32×32).
/// `how`: "bf16" (autocast), "channels_last", "ddp" (as the trainer has it), "graph" (all of a step in one
/// CUDA graph). Throws LeftOut where the device or the build cannot.
Training make_training(const Context& context, const std::string& model, std::int64_t batch,
                       const std::set<std::string>& how);

}  // namespace ddprun::bench
