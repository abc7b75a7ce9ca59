#pragma once

#include "worker/models/shapes.h"
#include <ddprun/trainer/registry.h>

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

namespace ddprun::models {

/// The smallest convolutional net worth comparing with: 3 × 3 convolutions of 10 and 10 channels, each with
/// ReLU and 2 × 2 max-pooling, then one linear layer, which has 490 inputs for 28 × 28 images.
class TwoConv final : public Model {
 public:
  TwoConv(const ImageSize& image, std::int64_t outputs);
  at::Tensor forward(at::Tensor images) override;
  [[nodiscard]] std::string head() const override { return "fc"; }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  torch::nn::Linear fc_;
};

void register_two_conv(ModelRegistry& models);

}  // namespace ddprun::models
