#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddprun::runtime::shm {

/// What the elements of a collective's data are. kOther is moved byte by byte and cannot be reduced.
enum class DType : std::uint8_t {
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kInt8,
  kUint8,
  kInt16,
  kInt32,
  kInt64,
  kBool,
  kOther,
};

/// How two contributions become one. kAverage is kSum divided by the number of ranks.
enum class ReduceOp : std::uint8_t { kSum, kProduct, kMin, kMax, kAverage, kAnd, kOr, kXor };

/// "float32"; kOther is "other".
std::string_view to_string(DType dtype);

/// "sum"
std::string_view to_string(ReduceOp op);

/// Bytes of one element; 1 for kOther, whose counts are bytes.
std::size_t item_size(DType dtype);

}  // namespace ddprun::runtime::shm
