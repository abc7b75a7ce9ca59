#include "worker/models/shapes.h"
#include <ddprun/trainer/registry.h>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

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

Mlp::Mlp(const MlpOptions& options) {
  layers_->push_back(torch::nn::Flatten());
  std::int64_t width = options.inputs;
  for (const std::int64_t next : options.hidden) {
    layers_->push_back(torch::nn::Linear(width, next));
    layers_->push_back(torch::nn::ReLU());
    layers_->push_back(torch::nn::Dropout(options.dropout));
    width = next;
  }
  layers_->push_back(torch::nn::Linear(width, options.outputs));
  register_module("layers", layers_);
}

at::Tensor Mlp::forward(at::Tensor input) { return layers_->forward(std::move(input)); }

void register_mlp(ModelRegistry& models) {
  models.add("mlp", "linear layers with ReLU, for any data",
             [](const Options& options, const DataShape& data) {
               return std::make_shared<Mlp>(MlpOptions{.inputs = inputs_of(data, "mlp"),
                                                       .hidden = options.integers("hidden"),
                                                       .outputs = outputs_of(data),
                                                       .dropout = options.number("dropout")});
             });
}

}  // namespace ddprun::models
