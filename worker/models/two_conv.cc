#include "worker/models/two_conv.h"

#include <ATen/ATen.h>

namespace ddprun::models {
namespace {

constexpr std::int64_t kChannels = 10;

torch::nn::Conv2d same_size_conv(std::int64_t in) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, kChannels, 3).padding(1));
}

}  // namespace

TwoConv::TwoConv()
    : conv1_(register_module("conv1", same_size_conv(1))),
      conv2_(register_module("conv2", same_size_conv(kChannels))),
      fc_(register_module("fc", torch::nn::Linear(kChannels * 7 * 7, kClasses))) {}

at::Tensor TwoConv::forward(at::Tensor images) {
  at::Tensor x = at::max_pool2d(at::relu(conv1_->forward(images)), 2);
  x = at::max_pool2d(at::relu(conv2_->forward(x)), 2);
  return fc_->forward(x.flatten(1));
}

}  // namespace ddprun::models
