#pragma once

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

namespace ddprun::models {

/// As Python's nn.Linear computes. torch::nn::Linear of C++ multiplies and adds in two steps where the input has
/// three dimensions: other bits.
inline at::Tensor linear_forward(const torch::nn::Linear& linear, const at::Tensor& input) {
  return at::linear(input, linear->weight, linear->bias);
}

}  // namespace ddprun::models
