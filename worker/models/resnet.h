#pragma once

#include <ddprun/trainer/registry.h>

namespace ddprun::models {

/// resnet18, resnet34, resnet50, resnet101: torchvision's, whose stride stands in the 3 × 3 convolution of a
/// bottleneck ("v1.5"). Images of any size; no options.
void register_resnet(ModelRegistry& models);

}  // namespace ddprun::models
