#pragma once

#include <cstdint>
#include <vector>

namespace ddprun::data {

/// Labelled grey images in memory, as bytes; a batch turns them into numbers (loader.h).
struct Dataset {
  std::int64_t count = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  int classes = 10;
  float mean = 0;                    ///< of the pixels in 0…1, subtracted
  float deviation = 1;               ///< divided by
  std::vector<std::uint8_t> pixels;  ///< count × height × width
  std::vector<std::uint8_t> labels;  ///< count, each below `classes`

  [[nodiscard]] std::int64_t image_size() const { return height * width; }
};

/// What a job trains on and what it is judged by.
struct DataSplits {
  Dataset train;
  Dataset held_out;
};

}  // namespace ddprun::data
