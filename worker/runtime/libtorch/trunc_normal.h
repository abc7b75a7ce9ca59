#pragma once

#include <ATen/ATen.h>
#include <torch/version.h>

#include <cmath>

namespace ddprun::runtime {

/// Python's torch.nn.init.trunc_normal_(tensor, std=deviation), with its bounds -2 and 2; deviations up to 1.
/// It was written anew between 2.11 and 2.15, so that one seed gives other numbers. Nothing in the headers
/// tells, because C++ has no such function: here the version decides.
inline void trunc_normal_(at::Tensor tensor, double deviation) {
  constexpr double kBound = 2;
  constexpr bool kRedraws = TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15;
  const at::NoGradGuard no_grad;
  if constexpr (kRedraws) {
    at::Tensor drawn = tensor.normal_(0, deviation);
    for (;;) {
      const at::Tensor outside = (drawn < -kBound).logical_or(drawn > kBound);
      if (!outside.any().item<bool>()) break;
      drawn = at::where(outside, at::empty_like(drawn).normal_(0, deviation), drawn);
    }
    if (!drawn.is_same(tensor)) tensor.copy_(drawn);
  } else {
    const auto share_below = [](double x) { return (1 + std::erf(x / std::sqrt(2.0))) / 2; };
    const double low = share_below(-kBound / deviation);
    const double high = share_below(kBound / deviation);
    tensor.uniform_(2 * low - 1, 2 * high - 1).erfinv_();
    tensor.mul_(deviation * std::sqrt(2.0)).clamp_(-kBound, kBound);
  }
}

}  // namespace ddprun::runtime
