#pragma once

#include <ddprun/trainer/registry.h>

namespace ddprun::models {

/// resnet20, resnet32, resnet56: the nets for CIFAR of He et al. (2015), §4.2. Images of any size.
///
/// Options  shortcut: where a stage halves the image and doubles the channels,
///          "pad"         every second pixel, with zero channels around: option A of the paper.
///                        Names and first weights of akamaster/pytorch_resnet_cifar10
///          "projection"  a 1 × 1 convolution with batch norm: option B. Names and first weights of torchvision's
///                        ResNets, and so of chenyaofo/pytorch-cifar-models
void register_cifar_resnet(ModelRegistry& models);

}  // namespace ddprun::models
