#pragma once

#include "worker/transforms/image.h"

namespace ddprun::transforms {

/// The size whose short side is `short_side`; the long one keeps the ratio, rounded down.
Size resized_to_short_side(Size size, std::int64_t short_side);

/// Bilinear with antialias: bytes of torchvision's v2 resize, which calculates in bytes on CPUs with AVX2 and
/// in float on others, so that these two differ by 1 here and there.
Image resize(const Image& image, Size size);

/// The window in the middle, as torchvision's CenterCrop takes it; black around an image that is smaller.
Window center_window(Size image, Size wanted);

}  // namespace ddprun::transforms
