#include "worker/transforms/resize.h"

#include <ATen/Version.h>
#include <ATen/ops/_upsample_bilinear2d_aa.h>

#include <array>
#include <cmath>
#include <string>

namespace ddprun::transforms {
namespace {

/// One image as a batch. The stride of a batch of one means nothing, but at C · H · W an interleaved image is
/// seen as channels_last, which ATen keeps (pytorch/pytorch#68430).
at::Tensor as_batch(const at::Tensor& image) {
  return image.as_strided({1, image.size(0), image.size(1), image.size(2)},
                          {image.numel(), image.stride(0), image.stride(1), image.stride(2)});
}

bool resizes_bytes() {
  const std::string capability = at::get_cpu_capability();
  return capability == "AVX2" || capability == "AVX512";
}

/// Where a crop or padding of `wanted` begins in `size`: half of the rest; of a rest that is odd, Python's round
/// to even, and for padding the smaller half.
std::int64_t middle(std::int64_t size, std::int64_t wanted) {
  if (wanted > size) return -((wanted - size) / 2);
  return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(size - wanted) / 2));
}

}  // namespace

Size resized_to_short_side(Size size, std::int64_t short_side) {
  const bool is_tall = size.width <= size.height;
  const std::int64_t shorter = is_tall ? size.width : size.height;
  const std::int64_t longer = is_tall ? size.height : size.width;
  const auto other =
      static_cast<std::int64_t>(static_cast<double>(short_side * longer) / static_cast<double>(shorter));
  return is_tall ? Size{other, short_side} : Size{short_side, other};
}

Image resize(const Image& image, Size size) {
  if (size == image.size()) return image;
  const at::Tensor pixels = as_batch(to_tensor(image));
  const std::array<std::int64_t, 2> wanted{size.height, size.width};
  if (resizes_bytes()) return from_tensor(at::_upsample_bilinear2d_aa(pixels, wanted, false)[0]);
  return from_tensor(
      at::_upsample_bilinear2d_aa(pixels.to(at::kFloat), wanted, false).round_().to(at::kByte)[0]);
}

Window center_window(Size image, Size wanted) {
  return {middle(image.height, wanted.height), middle(image.width, wanted.width), wanted.height,
          wanted.width};
}

}  // namespace ddprun::transforms
