#include "worker/models/mlp.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

namespace ddprun::models {

Mlp::Mlp(const ModelOptions& options) {
  layers_->push_back(torch::nn::Flatten());
  std::int64_t width = kImageSide * kImageSide;
  for (const std::int64_t next : options.hidden) {
    layers_->push_back(torch::nn::Linear(width, next));
    layers_->push_back(torch::nn::ReLU());
    layers_->push_back(torch::nn::Dropout(options.dropout));
    width = next;
  }
  layers_->push_back(torch::nn::Linear(width, kClasses));
  register_module("layers", layers_);
}

at::Tensor Mlp::forward(at::Tensor images) { return layers_->forward(std::move(images)); }

}  // namespace ddprun::models
