#include "worker/data/bounded_size.h"

#include <fmt/format.h>

namespace ddprun::data {

Result<transforms::Size> bounded_size(transforms::Size size, const std::string& name) {
  if (!transforms::has_too_many_pixels(size)) return size;
  return Error(ErrorCode::kCorrupt,
               fmt::format("{} says that it has {} × {} pixels, more than the {} that are read", name,
                           size.height, size.width, transforms::kMostPixels));
}

}  // namespace ddprun::data
