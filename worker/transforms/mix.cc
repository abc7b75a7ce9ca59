#include "worker/transforms/mix.h"

#include <ATen/ops/one_hot.h>
#include <ATen/ops/roll.h>

#include <algorithm>
#include <cmath>

namespace ddprun::transforms {
namespace {

at::Tensor neighbours(const at::Tensor& batch) { return at::roll(batch, 1, 0); }

at::Tensor mixed(const at::Tensor& batch, double share) {
  return neighbours(batch).mul_(1.0 - share).add_(batch.mul(share));
}

}  // namespace

double draw_mixup(double alpha, Random& random) { return random.beta(alpha); }

at::Tensor mixup(const at::Tensor& images, double share) { return mixed(images, share); }

Cut draw_cutmix(double alpha, Size image, Random& random) {
  const double half = 0.5 * std::sqrt(1.0 - random.beta(alpha));
  const std::int64_t x = random.below(image.width);
  const std::int64_t y = random.below(image.height);
  const auto half_width = static_cast<std::int64_t>(half * static_cast<double>(image.width));
  const auto half_height = static_cast<std::int64_t>(half * static_cast<double>(image.height));
  const std::int64_t left = std::max<std::int64_t>(x - half_width, 0);
  const std::int64_t top = std::max<std::int64_t>(y - half_height, 0);
  const Window window{top, left, std::min(y + half_height, image.height) - top,
                      std::min(x + half_width, image.width) - left};
  const double cut =
      static_cast<double>(window.height * window.width) / static_cast<double>(image.height * image.width);
  return {window, 1.0 - cut};
}

at::Tensor cutmix(const at::Tensor& images, const Cut& cut) {
  const Window& window = cut.window;
  const auto part = [&](const at::Tensor& batch) {
    return batch.narrow(2, window.top, window.height).narrow(3, window.left, window.width);
  };
  at::Tensor result = images.clone();
  part(result).copy_(part(neighbours(images)));
  return result;
}

at::Tensor mix_labels(const at::Tensor& labels, std::int64_t classes, double share) {
  return mixed(at::one_hot(labels, classes).to(at::kFloat), share);
}

}  // namespace ddprun::transforms
