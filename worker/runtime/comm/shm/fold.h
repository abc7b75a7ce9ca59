#pragma once

#include "worker/runtime/comm/shm/kernels.h"

#include <cstddef>
#include <span>

namespace ddprun::runtime::shm {

/// In which order the contributions to an element are reduced: gloo's, so that results are equal to the last
/// bit.
///
/// gloo's ring all-reduce cuts the tensor into one block per rank, of equal size but for rounding. The sum of block b
/// starts with rank b - 1, which hands it down to b - 2, and so on around the ring until it ends at rank b. Min and
/// max compute "its own op what it was handed", and of 0 and -0, and beside a NaN, take the first; sums and products
/// of two NaNs keep the one that was handed. Source: observed, and held against libtorch's gloo by
/// tests/integration/shm and tests/interop/collectives.
class RingOrder {
 public:
  RingOrder(std::size_t total_bytes, std::size_t item_bytes, int ranks);

  /// The block that holds the byte at `offset`.
  [[nodiscard]] int block_of(std::size_t offset) const { return static_cast<int>(offset / block_bytes_); }
  /// Where the block after that one begins.
  [[nodiscard]] std::size_t end_of_block(int block) const {
    return (static_cast<std::size_t>(block) + 1) * block_bytes_;
  }
  /// The `step`-th rank, from 0, to be reduced in `block`.
  [[nodiscard]] int rank_at(int block, int step) const { return (block - 1 - step + 2 * ranks_) % ranks_; }

 private:
  std::size_t block_bytes_;
  int ranks_;
};

/// What fold() does besides where.
struct Folding {
  const Kernels* kernels;
  std::size_t item_bytes;
  bool is_average;
  RingOrder order;
};

/// Reduces `bytes` bytes, which begin `offset` bytes into the tensor: source r is rank r's contribution to
/// them. The result goes to every target; a target may be a source. At least one of each.
void fold(const Folding& how, std::size_t offset, std::size_t bytes,
          std::span<const std::byte* const> sources, std::span<std::byte* const> targets);

}  // namespace ddprun::runtime::shm
