#pragma once

#include <torch/version.h>

namespace ddprun::runtime {

/// Does the step of Python's fused Adagrad divide by a GradScaler's scale? In 2.11 gradients are unscaled before it, in
/// 2.15 it is the kernel that does so, which rounds otherwise. Nothing in the headers tells, because the kernel could
/// always do it: here the version decides.
inline constexpr bool kAdagradTakesScale = TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15;

}  // namespace ddprun::runtime
