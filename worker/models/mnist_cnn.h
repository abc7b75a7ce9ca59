#pragma once

#include "worker/models/model.h"

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

namespace ddprun::models {

/// Two 5 × 5 convolutions of 16 and 32 channels, each with ReLU and 2 × 2 max-pooling, then linear layers
/// 1568 → 128 → 10 with dropout between them.
class MnistCnn final : public Model {
 public:
  explicit MnistCnn(const ModelOptions& options);
  at::Tensor forward(at::Tensor images) override;

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  torch::nn::Linear fc1_;
  torch::nn::Dropout dropout_;
  torch::nn::Linear fc2_;
};

}  // namespace ddprun::models
