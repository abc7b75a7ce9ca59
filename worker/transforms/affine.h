#pragma once

#include "worker/transforms/image.h"

namespace ddprun::transforms {

/// Where the nearest pixel is taken from; black where the source lies outside. Bytes of torchvision's v2
/// `affine` and `rotate` with interpolation NEAREST and no fill.

/// Shears by `share` of the height, about the upper left corner.
Image shear_horizontally(const Image& image, double share);
/// Shears by `share` of the width, about the upper left corner.
Image shear_vertically(const Image& image, double share);
/// Moves the picture right and down by whole pixels.
Image translate(const Image& image, std::int64_t right, std::int64_t down);
/// Turns the picture counter-clockwise about its centre.
Image rotate(const Image& image, double degrees);

}  // namespace ddprun::transforms
