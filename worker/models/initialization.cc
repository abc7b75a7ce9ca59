#include "worker/models/initialization.h"

#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace ddprun::models {
namespace {

constexpr double kLinearDeviation = 0.01;

// False where the module is no convolution.
bool draw_convolution(torch::nn::Module& module) {
  const auto* conv = module.as<torch::nn::Conv2dImpl>();
  if (conv == nullptr) return false;
  torch::nn::init::kaiming_normal_(conv->weight, /*a=*/0, torch::kFanOut, torch::kReLU);
  if (conv->bias.defined()) torch::nn::init::zeros_(conv->bias);
  return true;
}

}  // namespace

void draw_convolutions(torch::nn::Module& model) {
  for (const auto& module : model.modules(/*include_self=*/false)) draw_convolution(*module);
}

void draw_convolutions_and_linear_layers(torch::nn::Module& model) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (draw_convolution(*module)) continue;
    const auto* linear = module->as<torch::nn::LinearImpl>();
    if (linear == nullptr) continue;
    torch::nn::init::normal_(linear->weight, 0, kLinearDeviation);
    torch::nn::init::zeros_(linear->bias);
  }
}

}  // namespace ddprun::models
