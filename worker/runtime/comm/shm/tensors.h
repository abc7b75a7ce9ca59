#pragma once

#include "worker/runtime/comm/shm/description.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::runtime::shm {

/// The bytes of a tensor that a collective can work on.
struct Bytes {
  std::byte* data = nullptr;
  std::size_t size = 0;
};

/// kOther for types that can only be moved.
DType to_dtype(at::ScalarType type);
/// Undefined for kOther.
at::ScalarType to_scalar_type(DType dtype);

/// In the words of c10d, "all_reduce".
std::string_view operation_of(Kind kind);

/// The reduction, or kConfig for those that c10d has and this backend has not.
ReduceOp to_reduce_op(const c10d::ReduceOp& op);

/// Kind, dtype and shape of `tensor`; the caller adds op and root.
Description describe(Kind kind, const at::Tensor& tensor);

/// The memory of a dense, contiguous CPU tensor. Anything else is a kConfig Exception that says what to pass
/// instead.
Bytes bytes_of(Kind kind, const at::Tensor& tensor);

/// Throws kConfig: "shm all_reduce: why".
[[noreturn]] void refuse(Kind kind, const std::string& why);

/// The one tensor of a list that c10d's interface makes a list.
at::Tensor& only(Kind kind, std::vector<at::Tensor>& tensors);

/// A view of `tensor` as what is reduced: a sum of complex numbers is one of their parts. kConfig for other
/// reductions of complex numbers.
at::Tensor real_numbers(Kind kind, const at::Tensor& tensor, ReduceOp op);

/// Throws kConfig unless `tensor` has the dtype and the number of elements of `like`.
void check_alike(Kind kind, const at::Tensor& tensor, const at::Tensor& like);

}  // namespace ddprun::runtime::shm
