#pragma once

#include <ddprun/trainer/registry.h>

namespace ddprun::models {

/// vgg11, vgg13, vgg16, vgg19, and each with batch norm ("vgg16_bn"): torchvision's. Images of any size from 32
/// pixels on.
///
/// Options  dropout: share of the classifier's hidden values that is dropped in training
void register_vgg(ModelRegistry& models);

}  // namespace ddprun::models
