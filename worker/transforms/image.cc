#include "worker/transforms/image.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace ddprun::transforms {
namespace {

bool is_planar(const Image& image) {
  return image.column_stride == 1 && image.row_stride == image.width &&
         image.channel_stride == image.width * image.height;
}

bool is_interleaved(const Image& image) {
  return image.channel_stride == 1 && image.column_stride == image.channels &&
         image.row_stride == image.width * image.channels;
}

/// Copies `from` to the planar bytes at `to`, whose rows are `row_stride` apart.
void copy_planes(const Image& from, std::uint8_t* to, std::int64_t row_stride, std::int64_t channel_stride) {
  for (std::int64_t c = 0; c < from.channels; ++c) {
    for (std::int64_t y = 0; y < from.height; ++y) {
      const std::uint8_t* source = from.at(c, y, 0);
      std::uint8_t* target = to + c * channel_stride + y * row_stride;
      if (from.column_stride == 1) {
        std::memcpy(target, source, static_cast<std::size_t>(from.width));
      } else {
        for (std::int64_t x = 0; x < from.width; ++x) target[x] = source[x * from.column_stride];
      }
    }
  }
}

Image part(const Image& image, const Window& window) {
  Image view = image;
  view.pixels = image.at(0, window.top, window.left);
  view.height = window.height;
  view.width = window.width;
  return view;
}

bool is_within(const Window& window, const Image& image) {
  return window.top >= 0 && window.left >= 0 && window.top + window.height <= image.height &&
         window.left + window.width <= image.width;
}

}  // namespace

Image planar_view(const std::uint8_t* pixels, std::int64_t channels, Size size) {
  return {.pixels = pixels,
          .channels = channels,
          .height = size.height,
          .width = size.width,
          .channel_stride = size.height * size.width,
          .row_stride = size.width,
          .column_stride = 1,
          .owner = nullptr};
}

Image interleaved_view(const std::uint8_t* pixels, std::int64_t channels, Size size,
                       std::shared_ptr<const void> owner) {
  return {.pixels = pixels,
          .channels = channels,
          .height = size.height,
          .width = size.width,
          .channel_stride = 1,
          .row_stride = size.width * channels,
          .column_stride = channels,
          .owner = std::move(owner)};
}

Image crop(const Image& image, const Window& window) {
  if (is_within(window, image)) return part(image, window);
  const auto bytes = static_cast<std::size_t>(image.channels * window.height * window.width);
  std::shared_ptr<std::uint8_t[]> pixels(new std::uint8_t[bytes]());
  const std::int64_t top = std::max<std::int64_t>(window.top, 0);
  const std::int64_t left = std::max<std::int64_t>(window.left, 0);
  const std::int64_t bottom = std::min(window.top + window.height, image.height);
  const std::int64_t right = std::min(window.left + window.width, image.width);
  if (top < bottom && left < right) {
    copy_planes(part(image, {top, left, bottom - top, right - left}),
                pixels.get() + (top - window.top) * window.width + (left - window.left), window.width,
                window.height * window.width);
  }
  Image padded = planar_view(pixels.get(), image.channels, window.size());
  padded.owner = std::move(pixels);
  return padded;
}

Image flip_horizontally(Image image) {
  image.pixels = image.at(0, 0, image.width - 1);
  image.column_stride = -image.column_stride;
  return image;
}

Image flip_vertically(Image image) {
  image.pixels = image.at(0, image.height - 1, 0);
  image.row_stride = -image.row_stride;
  return image;
}

at::Tensor to_tensor(const Image& image) {
  if (!is_planar(image) && !is_interleaved(image)) return to_planar_tensor(image);
  return at::from_blob(
      const_cast<std::uint8_t*>(image.pixels), {image.channels, image.height, image.width},
      {image.channel_stride, image.row_stride, image.column_stride}, [owner = image.owner](void*) {},
      at::kByte);
}

at::Tensor to_planar_tensor(const Image& image) {
  if (is_planar(image)) return to_tensor(image);
  at::Tensor planes = at::empty({image.channels, image.height, image.width}, at::kByte);
  copy_planes(image, planes.mutable_data_ptr<std::uint8_t>(), image.width, image.width * image.height);
  return planes;
}

void write_planes(const Image& image, std::uint8_t* out) {
  copy_planes(image, out, image.width, image.width * image.height);
}

Image from_tensor(const at::Tensor& tensor) {
  return {.pixels = tensor.const_data_ptr<std::uint8_t>(),
          .channels = tensor.size(0),
          .height = tensor.size(1),
          .width = tensor.size(2),
          .channel_stride = tensor.stride(0),
          .row_stride = tensor.stride(1),
          .column_stride = tensor.stride(2),
          .owner = std::make_shared<at::Tensor>(tensor)};
}

}  // namespace ddprun::transforms
