#include "worker/transforms/color.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

// Where torchvision multiplies and adds in one operation, ATen's kernels round once or twice, as the processor
// can: those operations are ATen's here, too. Plain C++ is used where every operation rounds by itself.

namespace ddprun::transforms {
namespace {

using ByteTable = std::array<std::uint8_t, 256>;

/// Each channel through a table of its own, or all through one.
Image look_up(const Image& image, const std::vector<ByteTable>& tables) {
  const at::Tensor source = to_planar_tensor(image);
  at::Tensor result = at::empty_like(source);
  const std::uint8_t* from = source.const_data_ptr<std::uint8_t>();
  std::uint8_t* to = result.mutable_data_ptr<std::uint8_t>();
  const std::int64_t pixels = image.height * image.width;
  for (std::size_t c = 0; c < static_cast<std::size_t>(image.channels); ++c) {
    const ByteTable& table = tables[std::min(c, tables.size() - 1)];
    for (std::int64_t i = 0; i < pixels; ++i) *to++ = table[*from++];
  }
  return from_tensor(result);
}

at::Tensor levels() { return at::arange(256, at::kByte); }

ByteTable to_table(const at::Tensor& bytes) {
  ByteTable table{};
  std::copy_n(bytes.const_data_ptr<std::uint8_t>(), table.size(), table.begin());
  return table;
}

at::Tensor to_bytes(const at::Tensor& values) { return values.clamp_(0, 255).to(at::kByte); }

at::Tensor blend(const at::Tensor& image, const at::Tensor& other, double share) {
  return to_bytes(image.mul(share).add_(other, 1.0 - share));
}

/// Whole numbers in float, 1 × H × W.
at::Tensor grey_levels(const at::Tensor& image) {
  if (image.size(0) == 1) return image.to(at::kFloat);
  return image[0].mul(0.2989).add_(image[1], 0.587).add_(image[2], 0.114).floor_().unsqueeze(0);
}

struct Rgb {
  float r = 0, g = 0, b = 0;
};
struct Hsv {
  float h = 0, s = 0, v = 0;
};

Hsv to_hsv(const Rgb& p) {
  const float most = std::max({p.r, p.g, p.b});
  const float least = std::min({p.r, p.g, p.b});
  const float range = most - least;
  const float divisor = most == least ? 1.0F : range;
  const float r = (most - p.r) / divisor;
  const float g = (most - p.g) / divisor;
  const float b = (most - p.b) / divisor;
  float h = (g + 4.0F) - r;
  if (most == p.r) {
    h = b - g;
  } else if (most == p.g) {
    h = (r + 2.0F) - b;
  }
  constexpr auto kSixth = static_cast<float>(1.0 / 6.0);
  return {std::fmod(h * kSixth + 1.0F, 1.0F), range / (most == least ? 1.0F : most), most};
}

Rgb to_rgb(const Hsv& p) {
  const float h6 = p.h * 6.0F;
  const float whole = std::floor(h6);
  const float part = p.s * (h6 - whole);
  const float rest = 1.0F - p.s;
  const auto limited = [](float value) { return std::clamp(value, 0.0F, 1.0F); };
  const float falling = limited((1.0F - part) * p.v);
  const float rising = limited((part + rest) * p.v);
  const float low = limited(rest * p.v);
  switch (static_cast<int>(whole) % 6) {
    case 0:
      return {p.v, rising, low};
    case 1:
      return {falling, p.v, low};
    case 2:
      return {low, p.v, rising};
    case 3:
      return {low, falling, p.v};
    case 4:
      return {rising, low, p.v};
    default:
      return {p.v, low, falling};
  }
}

float turned(float hue, float turn) {
  float sum = std::fmod(hue + turn, 1.0F);
  if (sum < 0) sum += 1.0F;
  return sum;
}

std::uint8_t to_byte(float value) {
  constexpr auto kScale = static_cast<float>(255.0 + 1.0 - 1e-3);
  return static_cast<std::uint8_t>(value * kScale);
}

using Histogram = std::array<std::int64_t, 256>;

Histogram count_levels(const at::Tensor& plane) {
  Histogram counts{};
  const std::uint8_t* pixel = plane.const_data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < plane.numel(); ++i) ++counts[pixel[i]];
  return counts;
}

ByteTable stretched(const Histogram& counts) {
  int least = 0;
  int most = 255;
  while (least < 255 && counts[static_cast<std::size_t>(least)] == 0) ++least;
  while (most > 0 && counts[static_cast<std::size_t>(most)] == 0) --most;
  const bool is_flat = least == most;
  const float scale = is_flat ? 1.0F : static_cast<float>(most - least) * static_cast<float>(1.0 / 255);
  const float from = is_flat ? 0.0F : static_cast<float>(least);
  ByteTable table{};
  for (std::size_t level = 0; level < table.size(); ++level) {
    table[level] =
        static_cast<std::uint8_t>(std::clamp((static_cast<float>(level) - from) / scale, 0.0F, 255.0F));
  }
  return table;
}

/// Pillow's way of equalising: pixels of the brightest level do not count.
ByteTable equalized(const Histogram& counts) {
  ByteTable table{};
  std::int64_t pixels = 0;
  std::int64_t brightest = 0;
  for (const std::int64_t count : counts) {
    pixels += count;
    if (count > 0) brightest = count;
  }
  const std::int64_t step = (pixels - brightest) / 255;
  std::int64_t below = 0;
  for (std::size_t level = 0; level < table.size(); ++level) {
    table[level] = step == 0
                       ? static_cast<std::uint8_t>(level)
                       : static_cast<std::uint8_t>(std::min<std::int64_t>((below + step / 2) / step, 255));
    below += counts[level];
  }
  return table;
}

Image by_histogram(const Image& image, ByteTable (*make)(const Histogram&)) {
  const at::Tensor planes = to_planar_tensor(image);
  std::vector<ByteTable> tables;
  for (std::int64_t c = 0; c < image.channels; ++c) tables.push_back(make(count_levels(planes[c])));
  return look_up(from_tensor(planes), tables);
}

}  // namespace

Image adjust_brightness(const Image& image, double factor) {
  return look_up(image, {to_table(to_bytes(levels().mul(factor)))});
}

Image adjust_contrast(const Image& image, double factor) {
  const at::Tensor source = to_planar_tensor(image);
  const double sum = at::sum(grey_levels(source), at::kDouble).item<double>();
  const float mean = static_cast<float>(sum) / static_cast<float>(image.height * image.width);
  return look_up(from_tensor(source), {to_table(blend(levels(), at::full({1}, mean), factor))});
}

Image adjust_saturation(const Image& image, double factor) {
  if (image.channels == 1) return image;
  const at::Tensor source = to_planar_tensor(image);
  return from_tensor(blend(source, grey_levels(source), factor));
}

Image adjust_hue(const Image& image, double turn) {
  if (image.channels == 1) return image;
  const auto turn_by = static_cast<float>(turn);
  at::Tensor result = at::empty({3, image.height, image.width}, at::kByte);
  std::uint8_t* to = result.mutable_data_ptr<std::uint8_t>();
  const std::int64_t plane = image.height * image.width;
  const auto value = [](const std::uint8_t* pixel) {
    return static_cast<float>(*pixel) * static_cast<float>(1.0 / 255);
  };
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x, ++to) {
      Hsv pixel = to_hsv({value(image.at(0, y, x)), value(image.at(1, y, x)), value(image.at(2, y, x))});
      pixel.h = turned(pixel.h, turn_by);
      const Rgb rgb = to_rgb(pixel);
      to[0] = to_byte(rgb.r);
      to[plane] = to_byte(rgb.g);
      to[2 * plane] = to_byte(rgb.b);
    }
  }
  return from_tensor(result);
}

Image adjust_sharpness(const Image& image, double factor) {
  if (image.height <= 2 || image.width <= 2) return image;
  constexpr auto kEdge = static_cast<float>(1.0 / 13.0);
  constexpr auto kMiddle = static_cast<float>(5.0 / 13.0);
  const at::Tensor kernel =
      at::tensor({kEdge, kEdge, kEdge, kEdge, kMiddle, kEdge, kEdge, kEdge, kEdge}).view({1, 1, 3, 3});
  at::Tensor result = to_planar_tensor(image).to(at::kFloat);
  const at::Tensor blurred =
      at::conv2d(result, kernel.expand({image.channels, 1, 3, 3}), {}, at::IntArrayRef{1}, at::IntArrayRef{0},
                 at::IntArrayRef{1}, image.channels)
          .round_();
  at::Tensor inner = result.slice(1, 1, -1).slice(2, 1, -1);
  inner.add_(blurred.sub(inner), 1.0 - factor);
  return from_tensor(to_bytes(result));
}

Image posterize(const Image& image, int bits) {
  if (bits >= 8) return image;
  ByteTable table{};
  for (unsigned level = 0; level < table.size(); ++level) {
    table[level] = static_cast<std::uint8_t>(level & (0xff00U >> static_cast<unsigned>(bits)));
  }
  return look_up(image, {table});
}

Image solarize(const Image& image, double threshold) {
  ByteTable table{};
  for (unsigned level = 0; level < table.size(); ++level) {
    const bool is_above = static_cast<float>(level) >= static_cast<float>(threshold);
    table[level] = static_cast<std::uint8_t>(is_above ? 255U - level : level);
  }
  return look_up(image, {table});
}

Image autocontrast(const Image& image) { return by_histogram(image, stretched); }
Image equalize(const Image& image) { return by_histogram(image, equalized); }

}  // namespace ddprun::transforms
