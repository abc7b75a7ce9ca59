#include "worker/models/mlp.h"

#include "worker/models/shapes.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

namespace ddprun::models {

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
