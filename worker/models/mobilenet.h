#pragma once

#include <ddprun/trainer/registry.h>

namespace ddprun::models {

/// mobilenet_v3_small: Howard et al., "Searching for MobileNetV3" (2019), table 2, as torchvision has it. Images
/// of any size.
///
/// Options  dropout: share of the classifier's hidden values that is dropped in training
void register_mobilenet(ModelRegistry& models);

}  // namespace ddprun::models
