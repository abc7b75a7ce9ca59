#pragma once

#include <ddprun/trainer/registry.h>

#include <torch/nn/modules/container/sequential.h>

#include <cstdint>
#include <vector>

namespace ddprun::models {

struct MlpOptions {
  std::int64_t inputs = 1;           ///< numbers a sample
  std::vector<std::int64_t> hidden;  ///< width of each hidden layer
  std::int64_t outputs = 1;
  double dropout = 0;
};

/// Linear layers with ReLU and dropout between them. Python: nn.Sequential(Flatten(), Linear, ReLU, Dropout,
/// …, Linear) under the name "layers".
class Mlp final : public Model {
 public:
  explicit Mlp(const MlpOptions& options);
  at::Tensor forward(at::Tensor input) override;

 private:
  torch::nn::Sequential layers_;
};

void register_mlp(ModelRegistry& models);

}  // namespace ddprun::models
