#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <memory>
#include <utility>
#include <vector>

namespace ddprun::testing {

inline std::vector<at::Device> cpus(std::size_t count) { return std::vector<at::Device>(count, at::kCPU); }

/// Two layers and a batch norm; cloneable. In double, so that sums in another order agree to 1e-12.
struct NetImpl : torch::nn::Cloneable<NetImpl> {
  NetImpl() { NetImpl::reset(); }
  void reset() override {
    one = register_module("one", torch::nn::Linear(6, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    two = register_module("two", torch::nn::Linear(8, 3));
    to(torch::kDouble);
  }
  torch::Tensor forward(const torch::Tensor& input) { return two(torch::tanh(norm(one(input)))); }
  torch::nn::Linear one{nullptr}, two{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Net);

/// No clone(): replicas come from make_replica.
struct PlainImpl : torch::nn::Module {
  PlainImpl() {
    layer = register_module("layer", torch::nn::Linear(6, 3));
    to(torch::kDouble);
  }
  torch::Tensor forward(const torch::Tensor& input) { return layer(input); }
  torch::nn::Linear layer{nullptr};
};
TORCH_MODULE(Plain);

inline torch::nn::Sequential mlp() {
  torch::nn::Sequential model(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 3));
  model->to(torch::kDouble);
  return model;
}

inline torch::Tensor batch(std::int64_t rows) { return torch::randn({rows, 6}, torch::kDouble); }

/// A module that computes nothing but what a function says, and has one parameter.
template <class Function>
struct CallingImpl : torch::nn::Cloneable<CallingImpl<Function>> {
  explicit CallingImpl(Function f) : function(std::make_shared<Function>(std::move(f))) {
    CallingImpl::reset();
  }
  void reset() override { weight = this->register_parameter("weight", torch::ones({1}, torch::kDouble)); }
  template <class... Args>
  auto forward(const Args&... args) {
    return (*function)(weight, args...);
  }
  std::shared_ptr<Function> function;  // a lambda cannot be assigned, as clone() wants
  torch::Tensor weight;
};

template <class Function>
std::shared_ptr<CallingImpl<Function>> calling(Function function) {
  return std::make_shared<CallingImpl<Function>>(std::move(function));
}

}  // namespace ddprun::testing
