#pragma once

#include <torch/nn/module.h>

namespace ddprun::models {

/// What torchvision's convolutional nets do once they are built, over `model` in order of its modules:
/// convolutions are drawn by He's normal rule, by what goes out of them, and their biases become zero. Norms
/// are ones and zeros from their making. Linear layers keep what libtorch drew.
void draw_convolutions(torch::nn::Module& model);

/// The same, and every linear layer is drawn from a normal distribution of deviation 0.01, with bias zero.
void draw_convolutions_and_linear_layers(torch::nn::Module& model);

}  // namespace ddprun::models
