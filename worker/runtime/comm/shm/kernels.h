#pragma once

#include "worker/runtime/comm/shm/dtype.h"

#include <cstddef>

namespace ddprun::runtime::shm {

/// The arithmetic of one (dtype, op), on raw memory. Pointers are aligned for the element; `count` counts
/// elements. An output may be one of the inputs, never overlap one in part. Halves are added in float32 and
/// rounded to nearest even after every step, as gloo does. For kBool, sum and max are "or", product and min
/// are "and". Integers wrap around. Min and max are std::min(b, a) and std::max(b, a): of two that are equal
/// (0 and -0) or not comparable (one is NaN) it is `b`, bit for bit.
struct Kernels {
  /// out = a op b
  void (*combine)(std::byte* out, const std::byte* a, const std::byte* b, std::size_t count);
  /// out0 = out1 = a op b, in one pass
  void (*combine_two)(std::byte* out0, std::byte* out1, const std::byte* a, const std::byte* b,
                      std::size_t count);
  /// values /= divisor; used by kAverage only
  void (*divide)(std::byte* values, std::size_t divisor, std::size_t count);
};

/// The kernels for this processor, or nullptr where the operation is not defined: bitwise on floats, all on
/// kOther.
const Kernels* find_kernels(DType dtype, ReduceOp op);

}  // namespace ddprun::runtime::shm
