#pragma once

#include "worker/transforms/image.h"
#include "worker/transforms/random.h"

#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace ddprun::transforms {

/// What a random transform decides before it touches a pixel: torchvision's v2 distributions, each given as a
/// function of the options, the size of the image and a Random.

/// Bounds of a factor or share, both included.
struct Range {
  float from = 0;
  float to = 0;
};

/// Any window of `wanted` in the image with `padding` around it, which must be large enough; its coordinates
/// are of the image without the padding.
Window draw_crop(Size image, Size wanted, std::int64_t padding, Random& random);

struct ResizedCropOptions {
  Range area{0.08F, 1.0F};                ///< share of the image's area
  Range ratio{3.0F / 4.0F, 4.0F / 3.0F};  ///< width by height
};
/// Ten tries for a window within the image, then the middle of it, cut to the bounds of the ratio: a pixel at least.
Window draw_resized_crop(Size image, const ResizedCropOptions& options, Random& random);

struct ColorJitterOptions {
  std::optional<Range> brightness, contrast, saturation, hue;
};
struct ColorChange {
  enum class Kind { kBrightness, kContrast, kSaturation, kHue };
  Kind kind = Kind::kBrightness;
  double factor = 1;
  bool operator==(const ColorChange&) const = default;
};
/// The changes in the order in which they are to be made: any.
std::vector<ColorChange> draw_color_jitter(const ColorJitterOptions& options, Random& random);
Image apply(const ColorChange& change, const Image& image);

struct RandAugmentOptions {
  int operations = 2;
  int magnitude = 9;  ///< below `bins`
  int bins = 31;
};
struct Augmentation {
  enum class Kind {
    kIdentity,
    kShearX,
    kShearY,
    kTranslateX,
    kTranslateY,
    kRotate,
    kBrightness,
    kColor,
    kContrast,
    kSharpness,
    kPosterize,
    kSolarize,
    kAutoContrast,
    kEqualize
  };
  static constexpr int kKinds = 14;
  Kind kind = Kind::kIdentity;
  double magnitude = 0;  ///< with its sign
  bool operator==(const Augmentation&) const = default;
};
std::string_view to_string(Augmentation::Kind kind);
/// The magnitude of bin `magnitude` of `bins` for an image of `size`, without sign; 0 where there is none.
double magnitude_of(Augmentation::Kind kind, const RandAugmentOptions& options, Size size);
std::vector<Augmentation> draw_rand_augment(Size image, const RandAugmentOptions& options, Random& random);
Image apply(const Augmentation& augmentation, const Image& image);

struct ErasingOptions {
  double probability = 0.5;
  Range area{0.02F, 0.33F};
  Range ratio{0.3F, 3.3F};  ///< height by width
};
/// The window to erase; none in a share of cases, or when ten tries find none that is smaller than the image.
std::optional<Window> draw_erasing(Size image, const ErasingOptions& options, Random& random);

}  // namespace ddprun::transforms
