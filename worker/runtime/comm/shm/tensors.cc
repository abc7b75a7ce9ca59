#include "worker/runtime/comm/shm/tensors.h"

#include <ddprun/exception.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

namespace ddprun::runtime::shm {
namespace {

constexpr std::array kTypes{
    std::pair{at::kFloat, DType::kFloat32}, std::pair{at::kDouble, DType::kFloat64},
    std::pair{at::kHalf, DType::kFloat16},  std::pair{at::kBFloat16, DType::kBFloat16},
    std::pair{at::kChar, DType::kInt8},     std::pair{at::kByte, DType::kUint8},
    std::pair{at::kShort, DType::kInt16},   std::pair{at::kInt, DType::kInt32},
    std::pair{at::kLong, DType::kInt64},    std::pair{at::kBool, DType::kBool}};

std::string name(const at::Tensor& tensor) {
  return fmt::format("{}[{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

}  // namespace

void refuse(Kind kind, const std::string& why) {
  throw Exception(ErrorCode::kConfig, fmt::format("shm {}: {}", to_string(kind), why));
}

DType to_dtype(at::ScalarType type) {
  const auto found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& row) { return row.first == type; });
  return found == kTypes.end() ? DType::kOther : found->second;
}

at::ScalarType to_scalar_type(DType dtype) {
  const auto found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& row) { return row.second == dtype; });
  return found == kTypes.end() ? at::ScalarType::Undefined : found->first;
}

std::string_view operation_of(Kind kind) {
  switch (kind) {
    case Kind::kBarrier:
      return "barrier";
    case Kind::kAllReduce:
    case Kind::kSparseAllReduce:
      return "all_reduce";
    case Kind::kReduce:
      return "reduce";
    case Kind::kBroadcast:
      return "broadcast";
    case Kind::kAllGather:
      return "all_gather";
    case Kind::kGather:
      return "gather";
    case Kind::kScatter:
      return "scatter";
    case Kind::kReduceScatter:
      return "reduce_scatter";
    case Kind::kAllToAll:
      return "all_to_all";
    case Kind::kSend:
      return "send";
    case Kind::kReceive:
      return "recv";
  }
  return "";
}

ReduceOp to_reduce_op(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return ReduceOp::kSum;
    case c10d::ReduceOp::AVG:
      return ReduceOp::kAverage;
    case c10d::ReduceOp::PRODUCT:
      return ReduceOp::kProduct;
    case c10d::ReduceOp::MIN:
      return ReduceOp::kMin;
    case c10d::ReduceOp::MAX:
      return ReduceOp::kMax;
    case c10d::ReduceOp::BAND:
      return ReduceOp::kAnd;
    case c10d::ReduceOp::BOR:
      return ReduceOp::kOr;
    case c10d::ReduceOp::BXOR:
      return ReduceOp::kXor;
    case c10d::ReduceOp::PREMUL_SUM:
    case c10d::ReduceOp::UNUSED:
      break;
  }
  throw Exception(ErrorCode::kConfig,
                  "shm: PREMUL_SUM exists for NCCL only; multiply the tensor before a sum");
}

Description describe(Kind kind, const at::Tensor& tensor) {
  Description what{.kind = kind, .dtype = to_dtype(tensor.scalar_type())};
  what.set_shape({tensor.sizes().data(), tensor.sizes().size()});
  if (what.dtype == DType::kOther) {
    what.count *= static_cast<std::size_t>(tensor.element_size());
    what.shape_hash ^= static_cast<std::uint32_t>(tensor.scalar_type()) << 16U;
  }
  return what;
}

Bytes bytes_of(Kind kind, const at::Tensor& tensor) {
  if (!tensor.device().is_cpu()) {
    refuse(kind, fmt::format("the tensor {} is on {}, but shared memory serves CPU tensors; use backend nccl",
                             name(tensor), tensor.device().str()));
  }
  if (tensor.layout() != at::kStrided) {
    refuse(kind,
           fmt::format("the tensor {} is not dense; only all-reduce takes sparse tensors, so pass to_dense()",
                       name(tensor)));
  }
  if (!tensor.is_contiguous()) {
    refuse(kind, fmt::format("the tensor {} with strides [{}] is not contiguous; pass tensor.contiguous()",
                             name(tensor), fmt::join(tensor.strides(), ", ")));
  }
  return {.data = static_cast<std::byte*>(tensor.data_ptr()), .size = tensor.nbytes()};
}

at::Tensor real_numbers(Kind kind, const at::Tensor& tensor, ReduceOp op) {
  if (!tensor.is_complex()) return tensor;
  if (op == ReduceOp::kSum || op == ReduceOp::kAverage) return at::view_as_real(tensor.detach());
  refuse(kind, fmt::format("{} is not defined for {}", to_string(op), c10::toString(tensor.scalar_type())));
}

at::Tensor& only(Kind kind, std::vector<at::Tensor>& tensors) {
  if (tensors.size() != 1) refuse(kind, fmt::format("got {} tensors; pass one per call", tensors.size()));
  return tensors.front();
}

void check_alike(Kind kind, const at::Tensor& tensor, const at::Tensor& like) {
  if (tensor.scalar_type() == like.scalar_type() && tensor.numel() == like.numel()) return;
  refuse(kind, fmt::format("the tensor {} does not match {}: dtype and number of elements must be the same",
                           name(tensor), name(like)));
}

}  // namespace ddprun::runtime::shm
