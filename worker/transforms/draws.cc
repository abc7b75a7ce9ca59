#include "worker/transforms/draws.h"

#include "worker/transforms/affine.h"
#include "worker/transforms/color.h"

#include <ATen/ops/linspace.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace ddprun::transforms {
namespace {

/// As Python rounds: half to even.
std::int64_t rounded(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

/// A rectangle of a random share of the area and a random ratio: (along, across), where along / across is it.
struct Sides {
  std::int64_t along = 0;
  std::int64_t across = 0;
};

Sides draw_sides(Size image, Range share, Range ratio, Random& random) {
  const double area = static_cast<double>(image.height * image.width) *
                      static_cast<double>(random.uniform(share.from, share.to));
  const double drawn =
      static_cast<double>(std::exp(random.uniform(std::log(ratio.from), std::log(ratio.to))));
  return {rounded(std::sqrt(area * drawn)), rounded(std::sqrt(area / drawn))};
}

Window draw_place(Size image, Size size, Random& random) {
  const std::int64_t top = random.below(image.height - size.height + 1);
  const std::int64_t left = random.below(image.width - size.width + 1);
  return {top, left, size.height, size.width};
}

/// The middle, as large as the bounds of the ratio allow.
Window middle(Size image, Range ratio) {
  Size size = image;
  const double own = static_cast<double>(image.width) / static_cast<double>(image.height);
  const auto least = static_cast<double>(ratio.from);
  const auto most = static_cast<double>(ratio.to);
  const auto side = [](double pixels) { return std::max<std::int64_t>(1, rounded(pixels)); };
  if (own < least) size.height = side(static_cast<double>(image.width) / least);
  if (own > most) size.width = side(static_cast<double>(image.height) * most);
  return {(image.height - size.height) / 2, (image.width - size.width) / 2, size.height, size.width};
}

bool has_sign(Augmentation::Kind kind) {
  using enum Augmentation::Kind;
  switch (kind) {
    case kShearX:
    case kShearY:
    case kTranslateX:
    case kTranslateY:
    case kRotate:
    case kBrightness:
    case kColor:
    case kContrast:
    case kSharpness:
      return true;
    case kIdentity:
    case kPosterize:
    case kSolarize:
    case kAutoContrast:
    case kEqualize:
      return false;
  }
  return false;
}

}  // namespace

Window draw_crop(Size image, Size wanted, std::int64_t padding, Random& random) {
  const Size padded{image.height + 2 * padding, image.width + 2 * padding};
  Window window = draw_place(padded, wanted, random);
  window.top -= padding;
  window.left -= padding;
  return window;
}

Window draw_resized_crop(Size image, const ResizedCropOptions& options, Random& random) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const Sides sides = draw_sides(image, options.area, options.ratio, random);
    const Size size{sides.across, sides.along};
    if (size.width > 0 && size.width <= image.width && size.height > 0 && size.height <= image.height)
      return draw_place(image, size, random);
  }
  return middle(image, options.ratio);
}

std::vector<ColorChange> draw_color_jitter(const ColorJitterOptions& options, Random& random) {
  using enum ColorChange::Kind;
  const std::array<std::pair<ColorChange::Kind, const std::optional<Range>*>, 4> all{{
      {kBrightness, &options.brightness},
      {kContrast, &options.contrast},
      {kSaturation, &options.saturation},
      {kHue, &options.hue},
  }};
  std::vector<ColorChange> changes;
  for (const auto& [kind, range] : all) {
    if (!range->has_value()) continue;
    changes.push_back({kind, static_cast<double>(random.uniform((*range)->from, (*range)->to))});
  }
  for (std::size_t left = changes.size(); left > 1; --left) {
    const auto chosen = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(left)));
    std::swap(changes[left - 1], changes[chosen]);
  }
  return changes;
}

Image apply(const ColorChange& change, const Image& image) {
  using enum ColorChange::Kind;
  switch (change.kind) {
    case kBrightness:
      return adjust_brightness(image, change.factor);
    case kContrast:
      return adjust_contrast(image, change.factor);
    case kSaturation:
      return adjust_saturation(image, change.factor);
    case kHue:
      return adjust_hue(image, change.factor);
  }
  return image;
}

std::string_view to_string(Augmentation::Kind kind) {
  using enum Augmentation::Kind;
  switch (kind) {
    case kIdentity:
      return "Identity";
    case kShearX:
      return "ShearX";
    case kShearY:
      return "ShearY";
    case kTranslateX:
      return "TranslateX";
    case kTranslateY:
      return "TranslateY";
    case kRotate:
      return "Rotate";
    case kBrightness:
      return "Brightness";
    case kColor:
      return "Color";
    case kContrast:
      return "Contrast";
    case kSharpness:
      return "Sharpness";
    case kPosterize:
      return "Posterize";
    case kSolarize:
      return "Solarize";
    case kAutoContrast:
      return "AutoContrast";
    case kEqualize:
      return "Equalize";
  }
  return "unknown";
}

double magnitude_of(Augmentation::Kind kind, const RandAugmentOptions& options, Size size) {
  // linspace in float, because its last bit decides about a pixel now and then.
  const auto step = [&](double from, double to) {
    return at::linspace(from, to, options.bins, at::kFloat)[options.magnitude].item<double>();
  };
  using enum Augmentation::Kind;
  switch (kind) {
    case kShearX:
    case kShearY:
      return step(0, 0.3);
    case kTranslateX:
      return step(0, 150.0 / 331.0 * static_cast<double>(size.width));
    case kTranslateY:
      return step(0, 150.0 / 331.0 * static_cast<double>(size.height));
    case kRotate:
      return step(0, 30);
    case kBrightness:
    case kColor:
    case kContrast:
    case kSharpness:
      return step(0, 0.9);
    case kPosterize: {
      const auto per_bit = static_cast<float>((options.bins - 1) / 4.0);
      return static_cast<double>(std::nearbyint(8 - static_cast<float>(options.magnitude) / per_bit));
    }
    case kSolarize:
      return step(1, 0);
    case kIdentity:
    case kAutoContrast:
    case kEqualize:
      return 0;
  }
  return 0;
}

std::vector<Augmentation> draw_rand_augment(Size image, const RandAugmentOptions& options, Random& random) {
  std::vector<Augmentation> drawn;
  for (int i = 0; i < options.operations; ++i) {
    const auto kind = static_cast<Augmentation::Kind>(random.below(Augmentation::kKinds));
    double magnitude = magnitude_of(kind, options, image);
    if (has_sign(kind) && random.uniform(0, 1) <= 0.5F) magnitude = -magnitude;
    drawn.push_back({kind, magnitude});
  }
  return drawn;
}

Image apply(const Augmentation& augmentation, const Image& image) {
  const double magnitude = augmentation.magnitude;
  using enum Augmentation::Kind;
  switch (augmentation.kind) {
    case kIdentity:
      return image;
    case kShearX:
      return shear_horizontally(image, magnitude);
    case kShearY:
      return shear_vertically(image, magnitude);
    case kTranslateX:
      return translate(image, static_cast<std::int64_t>(magnitude), 0);
    case kTranslateY:
      return translate(image, 0, static_cast<std::int64_t>(magnitude));
    case kRotate:
      return rotate(image, magnitude);
    case kBrightness:
      return adjust_brightness(image, 1.0 + magnitude);
    case kColor:
      return adjust_saturation(image, 1.0 + magnitude);
    case kContrast:
      return adjust_contrast(image, 1.0 + magnitude);
    case kSharpness:
      return adjust_sharpness(image, 1.0 + magnitude);
    case kPosterize:
      return posterize(image, static_cast<int>(magnitude));
    case kSolarize:
      return solarize(image, 255.0 * magnitude);
    case kAutoContrast:
      return autocontrast(image);
    case kEqualize:
      return equalize(image);
  }
  return image;
}

std::optional<Window> draw_erasing(Size image, const ErasingOptions& options, Random& random) {
  if (!random.chance(options.probability)) return std::nullopt;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const Sides sides = draw_sides(image, options.area, options.ratio, random);
    const Size size{sides.along, sides.across};
    if (size.height < image.height && size.width < image.width) return draw_place(image, size, random);
  }
  return std::nullopt;
}

}  // namespace ddprun::transforms
