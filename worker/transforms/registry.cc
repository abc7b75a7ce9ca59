#include "worker/transforms/registry.h"

#include "worker/transforms/draws.h"
#include "worker/transforms/option_values.h"
#include "worker/transforms/resize.h"
#include <ddprun/exception.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddprun::transforms {
namespace {

class Resize : public Transform {
 public:
  explicit Resize(const Options& options)
      : wanted_(read_size(options)), keeps_ratio_(options.has("size")), pointer_(options.pointer()) {}

  std::optional<Size> output_size(std::optional<Size> input) const override {
    if (keeps_ratio_ && !input) return std::nullopt;
    return size_for(input.value_or(Size{}));
  }
  Image apply(const Image& image, Random&) const override { return resize(image, size_for(image.size())); }

 private:
  Size size_for(Size input) const {
    if (!keeps_ratio_) return wanted_;
    const Size size = resized_to_short_side(input, wanted_.height);
    if (!has_too_many_pixels(size)) return size;
    throw Exception(
        ErrorCode::kCorrupt,
        fmt::format("{}: an image of {} × {} pixels would have {} × {} with a short side of {}, more "
                    "than the {} that an image can have; leave it out, or give height and width",
                    pointer_, input.height, input.width, size.height, size.width, wanted_.height,
                    kMostPixels));
  }
  Size wanted_;
  bool keeps_ratio_;
  std::string pointer_;
};

class CenterCrop : public Transform {
 public:
  explicit CenterCrop(const Options& options) : wanted_(read_size(options)) {}
  std::optional<Size> output_size(std::optional<Size>) const override { return wanted_; }
  Image apply(const Image& image, Random&) const override {
    return crop(image, center_window(image.size(), wanted_));
  }

 private:
  Size wanted_;
};

class RandomCrop : public Transform {
 public:
  explicit RandomCrop(const Options& options)
      : wanted_(read_size(options)),
        padding_(read_integer(options, "padding", 0, 0, 4096)),
        pointer_(options.pointer()) {}

  std::optional<Size> output_size(std::optional<Size> input) const override {
    if (input) check(*input);
    return wanted_;
  }
  Image apply(const Image& image, Random& random) const override {
    check(image.size());
    return crop(image, draw_crop(image.size(), wanted_, padding_, random));
  }

 private:
  void check(Size image) const {
    if (image.height + 2 * padding_ >= wanted_.height && image.width + 2 * padding_ >= wanted_.width) return;
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("{}: a crop of {} × {} does not fit into an image of {} × {} with a padding of "
                    "{}; crop less, pad more, or resize before",
                    pointer_, wanted_.height, wanted_.width, image.height, image.width, padding_));
  }
  Size wanted_;
  std::int64_t padding_;
  std::string pointer_;
};

class RandomResizedCrop : public Transform {
 public:
  explicit RandomResizedCrop(const Options& options) : wanted_(read_size(options)) {
    drawn_.area = read_range(options, "scale", drawn_.area, {0, 1});
    drawn_.ratio = read_range(options, "ratio", drawn_.ratio, {0.001F, 1000});
  }
  std::optional<Size> output_size(std::optional<Size>) const override { return wanted_; }
  Image apply(const Image& image, Random& random) const override {
    return resize(crop(image, draw_resized_crop(image.size(), drawn_, random)), wanted_);
  }
  Image apply_to(const Undecoded& image, Random& random) const override {
    return resize(image.decode(draw_resized_crop(image.size, drawn_, random)), wanted_);
  }

 private:
  Size wanted_;
  ResizedCropOptions drawn_;
};

class Flip : public Transform {
 public:
  using Function = Image (*)(Image);
  Flip(const Options& options, Function flip) : p_(read_probability(options, "p", 0.5)), flip_(flip) {}
  Image apply(const Image& image, Random& random) const override {
    return random.chance(p_) ? flip_(image) : image;
  }

 private:
  double p_;
  Function flip_;
};

/// 0.4 stands for [1 - 0.4, 1 + 0.4], not below 0, and for hue for [-0.4, 0.4]; nothing for no change.
std::optional<Range> read_jitter(const Options& options, const std::string& key) {
  const bool is_hue = key == "hue";
  const double width = options.number(key, 0);
  const double most = is_hue ? 0.5 : 1000;
  if (!(width >= 0 && width <= most))
    refuse(options, key, fmt::format("expected number in 0 … {}, got {}", most, width));
  if (width == 0) return std::nullopt;
  if (is_hue) return Range{static_cast<float>(-width), static_cast<float>(width)};
  return Range{static_cast<float>(std::max(1 - width, 0.0)), static_cast<float>(1 + width)};
}

class ColorJitter : public Transform {
 public:
  explicit ColorJitter(const Options& options)
      : drawn_{read_jitter(options, "brightness"), read_jitter(options, "contrast"),
               read_jitter(options, "saturation"), read_jitter(options, "hue")} {}
  Image apply(const Image& image, Random& random) const override {
    Image result = image;
    for (const ColorChange& change : draw_color_jitter(drawn_, random))
      result = transforms::apply(change, result);
    return result;
  }

 private:
  ColorJitterOptions drawn_;
};

class RandAugment : public Transform {
 public:
  explicit RandAugment(const Options& options) {
    drawn_.operations = static_cast<int>(read_integer(options, "num_ops", 2, 0, 100));
    drawn_.bins = static_cast<int>(read_integer(options, "num_magnitude_bins", 31, 2, 1000));
    drawn_.magnitude = static_cast<int>(read_integer(options, "magnitude", 9, 0, drawn_.bins - 1));
  }
  Image apply(const Image& image, Random& random) const override {
    Image result = image;
    for (const Augmentation& augmentation : draw_rand_augment(image.size(), drawn_, random))
      result = transforms::apply(augmentation, result);
    return result;
  }

 private:
  RandAugmentOptions drawn_;
};

template <class T>
std::unique_ptr<Transform> make(const Options& options) {
  return std::make_unique<T>(options);
}

}  // namespace

Transform::~Transform() = default;

Image Transform::apply_to(const Undecoded& image, Random& random) const {
  return apply(image.decode({0, 0, image.size.height, image.size.width}), random);
}

void register_transforms(TransformRegistry& registry) {
  registry.add("resize", "resizes, with antialias: the short side, or both", make<Resize>);
  registry.add("center_crop", "cuts out the middle", make<CenterCrop>);
  registry.add("random_crop", "cuts out a window anywhere, after padding with black", make<RandomCrop>);
  registry.add("random_resized_crop", "cuts out a window of random size and ratio, and resizes it",
               make<RandomResizedCrop>);
  registry.add("horizontal_flip", "swaps left and right in a share p of cases",
               [](const Options& options) { return std::make_unique<Flip>(options, flip_horizontally); });
  registry.add("vertical_flip", "swaps top and bottom in a share p of cases",
               [](const Options& options) { return std::make_unique<Flip>(options, flip_vertically); });
  registry.add("color_jitter", "changes brightness, contrast, saturation and hue, in random order",
               make<ColorJitter>);
  registry.add("rand_augment", "applies some of 14 changes, chosen at random", make<RandAugment>);
}

}  // namespace ddprun::transforms
