#include "tests/integration/runtime/batch_norm_kernels.h"

#include <torch/types.h>

#include <optional>
#include <tuple>
#include <vector>

namespace ddprun::testing {
namespace {

using torch::Tensor;
using MaybeTensor = std::optional<Tensor>;

Tensor over(const Tensor& values, const Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = -1;
  return values.view(shape);
}

std::vector<std::int64_t> but_channels(const Tensor& input) {
  std::vector<std::int64_t> dims{0};
  for (std::int64_t dim = 2; dim < input.dim(); ++dim) dims.push_back(dim);
  return dims;
}

std::tuple<Tensor, Tensor> stats(const Tensor& input, double eps) {
  const auto [variance, mean] = torch::var_mean(input, at::IntArrayRef(but_channels(input)), false);
  return {mean, (variance + eps).rsqrt()};
}

std::tuple<Tensor, Tensor> gather_stats(const Tensor&, const Tensor& means, const Tensor& inverse_deviations,
                                        const MaybeTensor& running_mean, const MaybeTensor& running_var,
                                        double momentum, double eps, const Tensor& counts) {
  const Tensor n = counts.unsqueeze(1);
  const Tensor total = counts.sum();
  const Tensor mean = (n * means).sum(0) / total;
  const Tensor variances = inverse_deviations.pow(-2) - eps;
  const Tensor variance = (n * (variances + (means - mean).square())).sum(0) / total;
  if (running_mean) running_mean->mul_(1 - momentum).add_(mean, momentum);
  if (running_var) running_var->mul_(1 - momentum).add_(variance * total / (total - 1), momentum);
  return {mean, (variance + eps).rsqrt()};
}

Tensor elemt(const Tensor& input, const MaybeTensor& weight, const MaybeTensor& bias, const Tensor& mean,
             const Tensor& inverse_deviation, double) {
  const Tensor normalized = (input - over(mean, input)) * over(inverse_deviation, input);
  return weight ? normalized * over(*weight, input) + over(*bias, input) : normalized;
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward_reduce(const Tensor& gradient, const Tensor& input,
                                                           const Tensor& mean,
                                                           const Tensor& inverse_deviation,
                                                           const MaybeTensor&, bool wants_input,
                                                           bool wants_weight, bool wants_bias) {
  const Tensor sum_dy = gradient.sum(but_channels(input));
  const Tensor sum_dy_centered = (gradient * (input - over(mean, input))).sum(but_channels(input));
  return {wants_input ? sum_dy : Tensor(), wants_input ? sum_dy_centered : Tensor(),
          wants_weight ? sum_dy_centered * inverse_deviation : Tensor(), wants_bias ? sum_dy : Tensor()};
}

Tensor backward_elemt(const Tensor& gradient, const Tensor& input, const Tensor& mean,
                      const Tensor& inverse_deviation, const MaybeTensor& weight, const Tensor& sum_dy,
                      const Tensor& sum_dy_centered, const Tensor& counts) {
  const Tensor total = counts.sum();
  const Tensor slope = inverse_deviation.square() * sum_dy_centered / total;
  const Tensor scale = weight ? inverse_deviation * *weight : inverse_deviation;
  return (gradient - over(sum_dy / total, input) - (input - over(mean, input)) * over(slope, input)) *
         over(scale, input);
}

}  // namespace

BatchNormKernels::BatchNormKernels()
    : library_(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__) {
  library_.impl("batch_norm_stats", &stats);
  library_.impl("batch_norm_gather_stats_with_counts", &gather_stats);
  library_.impl("batch_norm_elemt", &elemt);
  library_.impl("batch_norm_backward_reduce", &backward_reduce);
  library_.impl("batch_norm_backward_elemt", &backward_elemt);
}

}  // namespace ddprun::testing
