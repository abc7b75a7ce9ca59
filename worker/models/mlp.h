#pragma once

#include "worker/models/model.h"

#include <torch/nn/modules/container/sequential.h>

namespace ddprun::models {

/// Linear layers with ReLU and dropout between them. Python: nn.Sequential(Flatten(), Linear, ReLU, Dropout,
/// …, Linear) under the name "layers".
class Mlp final : public Model {
 public:
  explicit Mlp(const ModelOptions& options);
  at::Tensor forward(at::Tensor images) override;

 private:
  torch::nn::Sequential layers_;
};

}  // namespace ddprun::models
