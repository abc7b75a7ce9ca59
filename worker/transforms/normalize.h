#pragma once

#include "worker/transforms/image.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <array>
#include <functional>
#include <string>
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

/// Writes an image as floats: conversion and normalisation as one look-up, whatever the image's strides are; or makes
/// floats of the bytes of a batch, where they are.
///
/// Threads  const: any number at once.
class Normalizer {
 public:
  Normalizer(const Normalization& normalization, std::int64_t channels);

  /// out   C × H × W floats
  void write(const Image& image, float* out) const;

  /// "normalised by mean [0.1307] and deviation [0.3081]"
  [[nodiscard]] std::string in_words() const;

  /// What makes the same numbers, to the last bit, of bytes N × C × H × W on `device`.
  [[nodiscard]] std::function<at::Tensor(const at::Tensor& bytes)> on(const at::Device& device) const;

 private:
  Normalization by_channel_;
  std::vector<std::array<float, 256>> tables_;  // by channel
};

}  // namespace ddprun::transforms
