#pragma once

#include "worker/transforms/image.h"

namespace ddprun::transforms {

/// Changes of colour, with the bytes of torchvision's v2 functions of the same name. A factor of 1 changes
/// nothing; grey images stay as they are under `adjust_saturation` and `adjust_hue`.
///
/// The mean in `adjust_contrast` is exact: torchvision's is, up to 65,793 pixels (256 × 257); beyond that its
/// last bit depends on how the sum was cut.

Image adjust_brightness(const Image& image, double factor);
Image adjust_contrast(const Image& image, double factor);
Image adjust_saturation(const Image& image, double factor);
/// `turn` of the colour circle, -0.5…0.5.
Image adjust_hue(const Image& image, double turn);
/// 0 blurs, 2 sharpens; images of two rows or columns stay as they are.
Image adjust_sharpness(const Image& image, double factor);

/// Keeps the upper `bits` of each byte, 0…8.
Image posterize(const Image& image, int bits);
/// Inverts what is at or above `threshold`, 0…255.
Image solarize(const Image& image, double threshold);
/// Stretches each channel to 0…255.
Image autocontrast(const Image& image);
/// Gives each channel a flat histogram.
Image equalize(const Image& image);

}  // namespace ddprun::transforms
