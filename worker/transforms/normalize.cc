#include "worker/transforms/normalize.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>

namespace ddprun::transforms {
namespace {

using FloatTable = std::array<float, 256>;

constexpr float kOneLevel = static_cast<float>(1.0 / 255.0);

FloatTable make_table(float mean, float deviation, Scaling scaling) {
  FloatTable table{};
  for (std::size_t level = 0; level < table.size(); ++level) {
    const auto byte = static_cast<float>(level);
    const float value = scaling == Scaling::kDivide ? byte / 255.0F : byte * kOneLevel;
    table[level] = (value - mean) / deviation;
  }
  return table;
}

void write_row(const std::uint8_t* pixel, std::int64_t stride, std::int64_t width, const FloatTable& table,
               float* out) {
  if (stride == 1) {
    for (std::int64_t x = 0; x < width; ++x) out[x] = table[pixel[x]];
  } else {
    for (std::int64_t x = 0; x < width; ++x, pixel += stride) out[x] = table[*pixel];
  }
}

}  // namespace

Normalizer::Normalizer(const Normalization& normalization, std::int64_t channels) {
  const auto of = [](const std::vector<float>& values, std::int64_t channel) {
    return values[std::min(static_cast<std::size_t>(channel), values.size() - 1)];
  };
  by_channel_ = {.mean = {}, .deviation = {}, .scaling = normalization.scaling};
  for (std::int64_t c = 0; c < channels; ++c) {
    by_channel_.mean.push_back(of(normalization.mean, c));
    by_channel_.deviation.push_back(of(normalization.deviation, c));
    tables_.push_back(
        make_table(by_channel_.mean.back(), by_channel_.deviation.back(), normalization.scaling));
  }
}

std::string Normalizer::in_words() const {
  return fmt::format("normalised by mean [{}] and deviation [{}]", fmt::join(by_channel_.mean, ", "),
                     fmt::join(by_channel_.deviation, ", "));
}

std::function<at::Tensor(const at::Tensor&)> Normalizer::on(const at::Device& device) const {
  const auto there = [&](const std::vector<float>& values) {
    return at::tensor(values, at::kFloat).view({-1, 1, 1}).to(device);
  };
  // All are tensors of the device: by a number of the host CUDA divides with its reciprocal, which has other bits.
  const at::Tensor levels = at::full({1}, 255, at::TensorOptions(at::kFloat)).to(device);
  return [levels, mean = there(by_channel_.mean), deviation = there(by_channel_.deviation),
          scaling = by_channel_.scaling](const at::Tensor& bytes) {
    at::Tensor values = bytes.to(at::kFloat);
    if (scaling == Scaling::kDivide) {
      values.div_(levels);
    } else {
      values.mul_(kOneLevel);
    }
    return values.sub_(mean).div_(deviation);
  };
}

void Normalizer::write(const Image& image, float* out) const {
  const bool has_planes = image.column_stride == 1 && image.row_stride == image.width;
  if (has_planes) {
    for (std::int64_t c = 0; c < image.channels; ++c) {
      write_row(image.at(c, 0, 0), 1, image.height * image.width, tables_[static_cast<std::size_t>(c)],
                out + c * image.height * image.width);
    }
    return;
  }
  // Row by row and not plane by plane: the channels of an interleaved row are read while it is in the cache.
  const std::int64_t plane = image.height * image.width;
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t c = 0; c < image.channels; ++c) {
      write_row(image.at(c, y, 0), image.column_stride, image.width, tables_[static_cast<std::size_t>(c)],
                out + c * plane + y * image.width);
    }
  }
}

}  // namespace ddprun::transforms
