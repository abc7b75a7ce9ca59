#pragma once

#include "worker/data/images.h"

#include <cstdint>

namespace ddprun::data {

struct SyntheticOptions {
  std::int64_t train_samples = 4096;
  std::int64_t held_out_samples = 1024;
  std::uint64_t seed = 0;
};

/// Ten classes of 28 × 28 images that can be learned: each class has its own random pattern, each image is
/// its class's pattern under noise. The same seed gives the same bytes on every machine.
ImageSplits make_synthetic(const SyntheticOptions& options);

}  // namespace ddprun::data
