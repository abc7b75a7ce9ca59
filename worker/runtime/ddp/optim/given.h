#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace ddprun::runtime {

/// An undefined tensor is none, for ATen's optional arguments.
inline std::optional<at::Tensor> given(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace ddprun::runtime
