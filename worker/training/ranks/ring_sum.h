#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ddprun::training {

/// Where a piece lies in the tensor that it is cut out of, in elements.
struct PieceOf {
  std::int64_t first = 0;  ///< of the piece
  std::int64_t whole = 0;  ///< of the tensor; a piece may end behind it
};

/// `out` becomes the sum of the `rows`, one for each rank: added in the order in which an all-reduce of the whole
/// tensor over gloo or shm adds them in a world of as many ranks, so that the bits are those that it gives, wherever
/// the rows come from. Pure, on any device.
void ring_sum(at::Tensor out, const at::Tensor& rows, const PieceOf& piece);

}  // namespace ddprun::training
