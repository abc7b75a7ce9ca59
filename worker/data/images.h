#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::data {

/// Labelled images in memory, as bytes; an ImageSource makes numbers of them.
struct Images {
  std::int64_t count = 0;
  std::int64_t channels = 1;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t classes = 10;
  std::vector<std::string> class_names;
  std::vector<float> mean{0};        ///< by channel, of the values in 0…1: subtracted
  std::vector<float> deviation{1};   ///< by channel: divided by
  std::vector<std::uint8_t> pixels;  ///< count × channels × height × width
  std::vector<std::uint8_t> labels;  ///< count, each below `classes`

  [[nodiscard]] std::int64_t plane_size() const { return height * width; }
  [[nodiscard]] std::int64_t image_size() const { return channels * plane_size(); }
};

struct ImageSplits {
  Images train;
  Images held_out;
};

}  // namespace ddprun::data
