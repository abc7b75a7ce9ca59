#pragma once

#include <ddprun/trainer/registry.h>

namespace ddprun::models {

/// lenet: LeNet-5 (LeCun et al., 1998) with ReLU and max-pooling: 5 × 5 convolutions to 6 and 16 channels,
/// each with 2 × 2 pooling, then linear layers to 120, 84 and the classes. Images below 32 pixels get a margin
/// of 2, as digits of 28 pixels had there. From 12 pixels on; no options.
void register_lenet(ModelRegistry& models);

}  // namespace ddprun::models
