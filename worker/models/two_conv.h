#pragma once

#include "worker/models/model.h"

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace ddprun::models {

/// The smallest convolutional net worth comparing with: 3 × 3 convolutions 1 → 10 → 10, each with ReLU and 2
/// × 2 max-pooling, then one linear layer 490 → 10.
class TwoConv final : public Model {
 public:
  TwoConv();
  at::Tensor forward(at::Tensor images) override;

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  torch::nn::Linear fc_;
};

}  // namespace ddprun::models
