#include "worker/transforms/chain.h"

#include "worker/transforms/option_values.h"
#include <ddprun/exception.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddprun::transforms {
namespace {

std::vector<float> read_channels(const Options& options, const std::string& key, std::int64_t channels) {
  const std::vector<double> values = options.numbers(key);
  if (values.size() != 1 && static_cast<std::int64_t>(values.size()) != channels) {
    refuse(
        options, key,
        fmt::format("expected 1 number, or {} for {} channels, got {}", channels, channels, values.size()));
  }
  return {values.begin(), values.end()};
}

Normalization read_normalization(const Options& options, std::int64_t channels) {
  Normalization normalization;
  normalization.mean = read_channels(options, "mean", channels);
  normalization.deviation = read_channels(options, "std", channels);
  for (const float deviation : normalization.deviation) {
    if (!(deviation > 0))
      refuse(options, "std", fmt::format("expected numbers above 0, got {:g}", deviation));
  }
  const std::string scaling = options.text("scaling", "divide");
  if (scaling != "divide" && scaling != "multiply")
    refuse(options, "scaling", fmt::format("expected \"divide\" or \"multiply\", got \"{}\"", scaling));
  normalization.scaling = scaling == "divide" ? Scaling::kDivide : Scaling::kMultiply;
  return normalization;
}

ErasingOptions read_erasing(const Options& options) {
  ErasingOptions erasing;
  erasing.probability = read_probability(options, "p", erasing.probability);
  erasing.area = read_range(options, "scale", erasing.area, {0, 1});
  erasing.ratio = read_range(options, "ratio", erasing.ratio, {0.001F, 1000});
  return erasing;
}

void erase(float* out, Size size, std::int64_t channels, const Window& window, float value) {
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t y = window.top; y < window.top + window.height; ++y)
      std::fill_n(out + (c * size.height + y) * size.width + window.left, window.width, value);
  }
}

}  // namespace

Chain::Chain(const std::vector<Options>& list, const std::string& pointer, const TransformRegistry& registry,
             const ChainInput& input)
    : channels_(input.channels) {
  std::optional<Size> size = input.size;
  for (const Options& entry : list) {
    const std::string type = entry.text("type");
    const auto refuse_place = [&](const std::string& after) {
      throw Exception(
          ErrorCode::kConfig,
          fmt::format("{}: \"{}\" comes after \"{}\", which ends the changes of bytes; move it up",
                      entry.pointer(), type, after));
    };
    if (erasing_) refuse_place("random_erasing");
    if (type == "random_erasing") {
      erasing_ = read_erasing(entry);
      erased_value_ = static_cast<float>(entry.number("value", 0));
    } else if (normalizer_) {
      refuse_place("normalize");
    } else if (type == "normalize") {
      normalizer_.emplace(read_normalization(entry, channels_), channels_);
    } else {
      try {
        transforms_.push_back(registry.at(type).make(entry));
      } catch (const Exception& error) {
        const std::string message = error.what();
        if (message.starts_with(entry.pointer())) throw;
        throw Exception(error.code(), fmt::format("{}/type: {}", entry.pointer(), message));
      }
      size = transforms_.back()->output_size(size);
    }
    refuse_unread(entry);
  }
  if (!size) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("{}: images of different sizes cannot be a batch; add center_crop, random_crop, "
                    "random_resized_crop, or resize with height and width",
                    pointer));
  }
  size_ = *size;
  if (!normalizer_) normalizer_.emplace(input.normalization, channels_);
}

void Chain::write(const Image& image, Random random, float* out) const {
  finish(changed(image, 0, random), random, out);
}

void Chain::write(const Undecoded& image, Random random, float* out) const {
  finish(changed(image, random), random, out);
}

void Chain::write(const Image& image, Random random, std::uint8_t* out) const {
  write_planes(changed(image, 0, random), out);
}

void Chain::write(const Undecoded& image, Random random, std::uint8_t* out) const {
  write_planes(changed(image, random), out);
}

Image Chain::changed(Image image, std::size_t done, Random& random) const {
  for (; done < transforms_.size(); ++done) image = transforms_[done]->apply(image, random);
  return image;
}

Image Chain::changed(const Undecoded& image, Random& random) const {
  if (transforms_.empty()) return image.decode({0, 0, image.size.height, image.size.width});
  return changed(transforms_.front()->apply_to(image, random), 1, random);
}

void Chain::finish(const Image& image, Random& random, float* out) const {
  normalizer_->write(image, out);
  if (!erasing_) return;
  const std::optional<Window> window = draw_erasing(size_, *erasing_, random);
  if (window) erase(out, size_, channels_, *window, erased_value_);
}

}  // namespace ddprun::transforms
