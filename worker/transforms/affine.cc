#include "worker/transforms/affine.h"

#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/grid_sampler.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/rot90.h>
#include <ATen/ops/tensor.h>

#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace ddprun::transforms {
namespace {

double to_radians(double degrees) { return degrees * (std::numbers::pi / 180.0); }
double to_degrees(double radians) { return radians * (180.0 / std::numbers::pi); }

/// Angles in degrees, lengths in pixels from the image's centre.
struct Motion {
  double angle = 0;
  double right = 0, down = 0;
  double shear_x = 0, shear_y = 0;
  double center_x = 0, center_y = 0;
};

/// The matrix that leads from a place in the result to one in the source: the inverse of moving, turning and
/// shearing about the centre. Operations are in the order that gives torchvision's last bit.
std::array<double, 6> source_matrix(const Motion& motion) {
  const double turn = to_radians(motion.angle);
  const double shear_x = to_radians(motion.shear_x);
  const double shear_y = to_radians(motion.shear_y);
  const double a = std::cos(turn - shear_y) / std::cos(shear_y);
  const double b = -(a * std::tan(shear_x) + std::sin(turn));
  const double c = std::sin(turn - shear_y) / std::cos(shear_y);
  const double d = std::cos(turn) - c * std::tan(shear_x);
  const double x = motion.center_x + motion.right;
  const double y = motion.center_y + motion.down;
  std::array<double, 6> matrix{d, -b, 0.0, -c, a, 0.0};
  matrix[2] += motion.center_x - matrix[0] * x - matrix[1] * y;
  matrix[5] += motion.center_y - matrix[3] * x - matrix[4] * y;
  return matrix;
}

/// For each pixel of the result the place of its source, in -1…1 over the image.
at::Tensor sampling_grid(const std::array<double, 6>& matrix, Size size) {
  const auto height = static_cast<double>(size.height);
  const auto width = static_cast<double>(size.width);
  at::Tensor places = at::empty({1, size.height, size.width, 3}, at::kFloat);
  places.select(3, 0).copy_(at::linspace((1.0 - width) * 0.5, (width - 1.0) * 0.5, size.width, at::kFloat));
  places.select(3, 1).copy_(
      at::linspace((1.0 - height) * 0.5, (height - 1.0) * 0.5, size.height, at::kFloat).unsqueeze(1));
  places.select(3, 2).fill_(1);
  const std::vector<float> rows(matrix.begin(), matrix.end());
  const std::vector<float> halves{static_cast<float>(0.5 * width), static_cast<float>(0.5 * height)};
  const at::Tensor scaled = at::tensor(rows).reshape({1, 2, 3}).transpose(1, 2).div_(at::tensor(halves));
  return places.view({1, size.height * size.width, 3}).bmm(scaled).view({1, size.height, size.width, 2});
}

Image sample(const Image& image, const Motion& motion) {
  constexpr std::int64_t kNearest = 1;
  constexpr std::int64_t kZeros = 0;
  const at::Tensor source = to_planar_tensor(image).to(at::kFloat).unsqueeze(0);
  const at::Tensor grid = sampling_grid(source_matrix(motion), image.size());
  const at::Tensor result = at::grid_sampler(source, grid, kNearest, kZeros, /*align_corners=*/false);
  return from_tensor(result[0].round_().to(at::kByte));
}

Motion shear_about_corner(const Image& image, double degrees_x, double degrees_y) {
  return {.shear_x = degrees_x,
          .shear_y = degrees_y,
          .center_x = -0.5 * static_cast<double>(image.width),
          .center_y = -0.5 * static_cast<double>(image.height)};
}

}  // namespace

Image shear_horizontally(const Image& image, double share) {
  return sample(image, shear_about_corner(image, to_degrees(std::atan(share)), 0));
}

Image shear_vertically(const Image& image, double share) {
  return sample(image, shear_about_corner(image, 0, to_degrees(std::atan(share))));
}

Image translate(const Image& image, std::int64_t right, std::int64_t down) {
  return sample(image, {.right = static_cast<double>(right), .down = static_cast<double>(down)});
}

Image rotate(const Image& image, double degrees) {
  double angle = std::fmod(degrees, 360);
  if (angle < 0) angle += 360;
  if (angle == 0) return image;
  if (angle == 180) return flip_vertically(flip_horizontally(image));
  const bool is_quarter = angle == 90 || angle == 270;
  if (is_quarter && image.height == image.width) {
    return from_tensor(at::rot90(to_planar_tensor(image), angle == 90 ? 1 : 3, {1, 2}));
  }
  return sample(image, {.angle = -angle});
}

}  // namespace ddprun::transforms
