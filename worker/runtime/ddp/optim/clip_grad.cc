#include "worker/runtime/ddp/optim/tensor_lists.h"
#include <ddprun/clip_grad.h>
#include <ddprun/exception.h>

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

namespace ddprun {
namespace {

void check_bound(const char* function, const char* parameter, double value) {
  if (value >= 0) return;
  throw Exception(ErrorCode::kConfig,
                  fmt::format("{}: {} is {}; it has to be at least 0", function, parameter, value));
}

at::Tensor total_norm_of(const std::vector<at::Tensor>& tensors, double norm_type) {
  if (tensors.empty()) return at::scalar_tensor(0.0, at::kFloat);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> norms;
  for (const std::vector<at::Tensor>& list : runtime::by_device_and_dtype(tensors)) {
    for (const at::Tensor& norm : at::_foreach_norm(list, norm_type)) {
      norms.push_back(runtime::copied_to(tensors.front().device(), norm));
    }
  }
  return at::linalg_vector_norm(at::stack(norms), norm_type);
}

}  // namespace

at::Tensor get_total_norm(const std::vector<at::Tensor>& tensors, double norm_type, bool error_if_nonfinite) {
  const at::Tensor norm = total_norm_of(tensors, norm_type);
  if (error_if_nonfinite && !std::isfinite(norm.item<double>())) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("the norm of order {} of {} gradients is {}, to which none can be clipped; lower "
                    "the learning rate, or go on with error_if_nonfinite = false",
                    norm_type, tensors.size(), norm.item<double>()));
  }
  return norm;
}

void clip_grads_with_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                           const at::Tensor& total_norm) {
  check_bound("clip_grad_norm_", "max_norm", max_norm);
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = runtime::gradients_of(parameters);
  const at::Tensor factor = at::clamp_max((total_norm + 1e-6).reciprocal() * max_norm, 1.0);
  // A GPU multiplies by 1 as well: to ask whether the norm is too large would be to wait for it.
  if (factor.is_cpu() && factor.item<double>() == 1.0) return;
  for (const std::vector<at::Tensor>& list : runtime::by_device_and_dtype(gradients)) {
    at::_foreach_mul_(list, runtime::copied_to(list.front().device(), factor));
  }
}

at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type,
                           bool error_if_nonfinite) {
  const at::Tensor total_norm =
      get_total_norm(runtime::gradients_of(parameters), norm_type, error_if_nonfinite);
  clip_grads_with_norm_(parameters, max_norm, total_norm);
  return total_norm;
}

void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value) {
  check_bound("clip_grad_value_", "clip_value", clip_value);
  const at::NoGradGuard no_grad;
  for (const std::vector<at::Tensor>& list :
       runtime::by_device_and_dtype(runtime::gradients_of(parameters))) {
    at::_foreach_clamp_min_(list, -clip_value);
    at::_foreach_clamp_max_(list, clip_value);
  }
}

}  // namespace ddprun
