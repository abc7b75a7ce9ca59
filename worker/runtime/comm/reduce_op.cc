#include "worker/runtime/comm/reduce_op.h"

#include "worker/runtime/libtorch/premul_sum.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace ddprun::runtime {
namespace {

bool multiplies(const Group& group, const at::Tensor& tensor) {
  return group.process_group()->getBackend(tensor.device().type())->getBackendName() == "nccl";
}

bool needs_scaling(const Group& group, const at::Tensor& tensor, const ReduceOp& op) {
  if (op.kind() != ReduceOp::kPremulSum) return false;
  if (!tensor.is_floating_point()) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("premul_sum: it multiplies floating point numbers, and the tensor is {}; "
                                "multiply it yourself and sum",
                                c10::toString(tensor.scalar_type())));
  }
  return !multiplies(group, tensor);
}

}  // namespace

c10d::ReduceOp to_c10d(const Group& group, const at::Tensor& tensor, const ReduceOp& op) {
  switch (op.kind()) {
    case ReduceOp::kSum:
      break;
    case ReduceOp::kAverage:
      return c10d::ReduceOp::AVG;
    case ReduceOp::kProduct:
      return c10d::ReduceOp::PRODUCT;
    case ReduceOp::kMin:
      return c10d::ReduceOp::MIN;
    case ReduceOp::kMax:
      return c10d::ReduceOp::MAX;
    case ReduceOp::kBitwiseAnd:
      return c10d::ReduceOp::BAND;
    case ReduceOp::kBitwiseOr:
      return c10d::ReduceOp::BOR;
    case ReduceOp::kBitwiseXor:
      return c10d::ReduceOp::BXOR;
    case ReduceOp::kPremulSum:
      if (needs_scaling(group, tensor, op)) break;
      return premul_sum(op.factor());
  }
  return c10d::ReduceOp::SUM;
}

void scale_in_place(const Group& group, at::Tensor& tensor, const ReduceOp& op) {
  const at::NoGradGuard no_grad;
  // By a tensor: mul_ by a number rounds the number to the tensor's dtype first, which Python's mul_ does
  // not.
  if (needs_scaling(group, tensor, op)) tensor.mul_(at::scalar_tensor(op.factor(), at::kDouble));
}

at::Tensor scaled(const Group& group, const at::Tensor& tensor, const ReduceOp& op) {
  const at::NoGradGuard no_grad;
  return needs_scaling(group, tensor, op) ? tensor.mul(op.factor()) : tensor;
}

void check_tag(int tag, std::string_view what) {
  if (tag >= 0 && tag < kAllToAllTag) return;
  throw Exception(ErrorCode::kConfig,
                  fmt::format("{}: the tag is {}; it has to be from 0 to {}", what, tag, kAllToAllTag - 1));
}

void check_rank(const Group& group, int rank, std::string_view what) {
  if (rank >= 0 && rank < group.size()) return;
  throw Exception(ErrorCode::kConfig,
                  fmt::format("{}: rank {} is outside a group of {}", what, rank, group.size()));
}

}  // namespace ddprun::runtime
