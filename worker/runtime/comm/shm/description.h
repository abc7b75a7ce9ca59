#pragma once

#include "worker/runtime/comm/shm/dtype.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ddprun::runtime::shm {

/// The collectives, as users know them.
enum class Kind : std::uint8_t {
  kBarrier,
  kAllReduce,
  kSparseAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kGather,
  kScatter,
  kReduceScatter,
  kAllToAll,
  kSend,  ///< for messages only, like the next
  kReceive,
};

/// "all-reduce"
std::string_view to_string(Kind kind);

/// What a rank called. Lies in the shared segment, so that ranks can be compared and a difference be told in
/// words.
struct Description {
  static constexpr std::size_t kMaxDims = 6;

  Kind kind = Kind::kBarrier;
  DType dtype = DType::kOther;
  ReduceOp op = ReduceOp::kSum;  ///< for reductions
  std::uint8_t dims_count = 0;   ///< of the tensor; more than kMaxDims are not shown
  std::int32_t root = -1;        ///< -1: the collective has none
  std::uint64_t count = 0;       ///< elements a rank contributes; 0 where ranks may differ (all-to-all)
  std::array<std::int64_t, kMaxDims> dims{};  ///< the first kMaxDims sizes
  std::uint32_t shape_hash = 0;               ///< of all sizes but those of 1, so that [1] and [] agree

  /// Fills count, dims and shape_hash.
  void set_shape(std::span<const std::int64_t> sizes);

  /// "all-reduce (sum) of float32[64, 10]", "broadcast from rank 2 of int64[3]", "barrier"
  [[nodiscard]] std::string to_text() const;

  /// Kind, dtype, op and root in one word; with count and shape_hash it decides whether two ranks agree.
  [[nodiscard]] std::uint64_t key() const;
};

}  // namespace ddprun::runtime::shm
