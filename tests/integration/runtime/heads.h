#pragma once

#include "tests/integration/runtime/in_threads.h"
#include <ddprun/distributed_data_parallel.h>

#include <torch/nn/modules/linear.h>

namespace ddprun::testing {

/// A model of which a program may use a part.
struct TwoHeads : torch::nn::Module {
  TwoHeads() {
    body = register_module("body", torch::nn::Linear(4, 4));
    left = register_module("left", torch::nn::Linear(4, 1));
    right = register_module("right", torch::nn::Linear(4, 1));
  }
  std::pair<torch::Tensor, torch::Tensor> forward(const torch::Tensor& input) {
    const auto hidden = body(input);
    return {left(hidden), right(hidden)};
  }
  torch::nn::Linear body{nullptr}, left{nullptr}, right{nullptr};
};

/// One head or the other, as the caller says.
struct OneHead : torch::nn::Module {
  explicit OneHead(std::shared_ptr<TwoHeads> given) : heads(register_module("heads", std::move(given))) {}
  torch::Tensor forward(const torch::Tensor& input, bool is_left) {
    const auto hidden = heads->body(input);
    return is_left ? heads->left(hidden) : heads->right(hidden);
  }
  std::shared_ptr<TwoHeads> heads;
};

/// What each rank threw: "no exception".
inline std::vector<std::string> messages(int world, const std::function<void(const Group&)>& body) {
  std::vector<std::string> texts;
  for (const auto& failure : run_ranks(world, body)) texts.push_back(message_of(failure));
  return texts;
}

}  // namespace ddprun::testing
