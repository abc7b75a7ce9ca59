#include "worker/runtime/comm/shm/dtype.h"

#include "rendezvous/base/check.h"

namespace ddprun::runtime::shm {

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kInt8:
      return "int8";
    case DType::kUint8:
      return "uint8";
    case DType::kInt16:
      return "int16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kBool:
      return "bool";
    case DType::kOther:
      return "other";
  }
  check_failed("dtype", "not a DType", __FILE__, __LINE__);
}

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kAnd:
      return "bitwise and";
    case ReduceOp::kOr:
      return "bitwise or";
    case ReduceOp::kXor:
      return "bitwise xor";
  }
  check_failed("op", "not a ReduceOp", __FILE__, __LINE__);
}

std::size_t item_size(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16:
      return 2;
    case DType::kInt8:
    case DType::kUint8:
    case DType::kBool:
    case DType::kOther:
      return 1;
  }
  check_failed("dtype", "not a DType", __FILE__, __LINE__);
}

}  // namespace ddprun::runtime::shm
