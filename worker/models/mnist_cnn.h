#pragma once

#include "worker/models/shapes.h"
#include <ddprun/trainer/registry.h>

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

namespace ddprun::models {

/// Two 5 × 5 convolutions of 16 and 32 channels, each with ReLU and 2 × 2 max-pooling, then linear layers of
/// 128 and as many outputs as there are classes, with dropout between them. Of 28 × 28 images the first has
/// 1568 inputs.
class MnistCnn final : public Model {
 public:
  MnistCnn(const ImageSize& image, std::int64_t outputs, double dropout);
  at::Tensor forward(at::Tensor images) override;
  [[nodiscard]] std::string head() const override { return "fc2"; }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  torch::nn::Linear fc1_;
  torch::nn::Dropout dropout_;
  torch::nn::Linear fc2_;
};

void register_mnist_cnn(ModelRegistry& models);

}  // namespace ddprun::models
