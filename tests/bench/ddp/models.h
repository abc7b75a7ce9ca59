#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <memory>
#include <string>

namespace ddprun::bench {

struct Model : torch::nn::Module {
  virtual torch::Tensor forward(const torch::Tensor& input) = 0;
};

/// A model and one random batch for it; the same as in peers/ddp_step.py.
struct Workload {
  std::shared_ptr<Model> model;
  torch::Tensor input, target;
};

/// "mlp" (784-256-128-10), "mnist_cnn" (1×28×28), "resnet18" (3×32×32).
Workload make_workload(const std::string& name, std::int64_t batch);

}  // namespace ddprun::bench
