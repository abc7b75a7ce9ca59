#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace ddprun::transforms {

/// Pixels; the height comes first, as in torch.
struct Size {
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const Size&) const = default;
};

/// Of one image, decoded or resized: what a header or a ratio of sides asks for beyond it is refused.
constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;
[[nodiscard]] constexpr bool has_too_many_pixels(Size size) {
  return size.width > 0 && size.height > kMostPixels / size.width;
}

/// A part of an image; what lies outside of the image counts as black.
struct Window {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const Window&) const = default;
  [[nodiscard]] Size size() const { return {height, width}; }
};

/// A picture in bytes: a view with strides, which may be negative, so that a crop and a flip copy nothing.
/// 1 (grey) or 3 (red, green, blue) channels, planar (C × H × W) or interleaved (H × W × C) in memory.
struct Image {
  const std::uint8_t* pixels = nullptr;  ///< of channel 0, row 0, column 0
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channel_stride = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
  std::shared_ptr<const void> owner;  ///< keeps the bytes; null: somebody else does

  [[nodiscard]] Size size() const { return {height, width}; }
  [[nodiscard]] const std::uint8_t* at(std::int64_t channel, std::int64_t row, std::int64_t column) const {
    return pixels + channel * channel_stride + row * row_stride + column * column_stride;
  }
};

/// An image that is not decoded yet: a decoder spends less on a part than on the whole.
struct Undecoded {
  Size size;
  std::function<Image(const Window&)> decode;  ///< the window lies within the image
};

/// A view of C × H × W bytes that somebody else keeps.
Image planar_view(const std::uint8_t* pixels, std::int64_t channels, Size size);
/// A view of H × W × C bytes.
Image interleaved_view(const std::uint8_t* pixels, std::int64_t channels, Size size,
                       std::shared_ptr<const void> owner = nullptr);

/// The window; a view where it lies within the image, else a copy with black around it.
Image crop(const Image& image, const Window& window);
Image flip_horizontally(Image image);
Image flip_vertically(Image image);

/// The same image as uint8, C × H × W: a view of it where it lies in memory one way or the other, else a copy.
at::Tensor to_tensor(const Image& image);
/// The same image as uint8, C × H × W, contiguous.
at::Tensor to_planar_tensor(const Image& image);
/// The same image as C × H × W bytes at `out`.
void write_planes(const Image& image, std::uint8_t* out);
/// A view of a uint8 tensor of C × H × W, which it keeps.
Image from_tensor(const at::Tensor& tensor);

}  // namespace ddprun::transforms
