#include "worker/models/residual_block.h"

#include <ATen/ATen.h>

#include <string>

namespace ddprun::models {

torch::nn::Conv2dOptions same_size(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                   std::int64_t stride) {
  return torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false);
}

ResidualBlock::ResidualBlock(const std::vector<torch::nn::Conv2dOptions>& body) {
  for (const torch::nn::Conv2dOptions& options : body) {
    const std::string number = std::to_string(layers_.size() + 1);
    const torch::nn::Conv2d conv = register_module("conv" + number, torch::nn::Conv2d(options));
    const SyncBatchNorm norm = register_module("bn" + number, SyncBatchNorm(options.out_channels()));
    layers_.push_back({conv, norm});
  }
}

void ResidualBlock::project(std::int64_t in, std::int64_t out, std::int64_t stride) {
  downsample_ = register_module(
      "downsample",
      torch::nn::Sequential(torch::nn::Conv2d(same_size(in, out, 1, stride)), SyncBatchNorm(out)));
}

at::Tensor ResidualBlock::shortcut(const at::Tensor& input) {
  return downsample_.is_empty() ? input : downsample_->forward(input);
}

at::Tensor ResidualBlock::forward(at::Tensor input) {
  at::Tensor output = layers_.front().forward(input);
  for (std::size_t i = 1; i < layers_.size(); ++i) output = layers_[i].forward(at::relu_(output));
  output += shortcut(input);
  return at::relu_(output);
}

}  // namespace ddprun::models
