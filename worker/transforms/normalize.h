#pragma once

#include "worker/transforms/image.h"

#include <array>
#include <vector>

namespace ddprun::transforms {

/// How bytes become numbers in 0…1 before mean and deviation: the two differ in the last bit of half the levels.
enum class Scaling {
  kDivide,  ///< byte / 255: torchvision's v1 ToTensor and convert_image_dtype, and what ddprun does by default
  kMultiply,  ///< byte × (1 / 255): torchvision's v2 ToDtype(float32, scale=True)
};

/// (value in 0…1 - mean) / deviation, by channel, in float. One value serves all channels.
struct Normalization {
  std::vector<float> mean{0};
  std::vector<float> deviation{1};
  Scaling scaling = Scaling::kDivide;
};

/// Writes an image as floats: conversion and normalisation as one look-up, whatever the image's strides are.
///
/// Threads  const: any number at once.
class Normalizer {
 public:
  Normalizer(const Normalization& normalization, std::int64_t channels);

  /// out   C × H × W floats
  void write(const Image& image, float* out) const;

 private:
  std::vector<std::array<float, 256>> tables_;  // by channel
};

}  // namespace ddprun::transforms
