#include "worker/training/ranks/ring_sum.h"

#include "worker/runtime/comm/shm/fold.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

namespace ddprun::training {

void ring_sum(at::Tensor out, const at::Tensor& rows, const PieceOf& piece) {
  const torch::NoGradGuard no_grad;
  const auto ranks = static_cast<int>(rows.size(0));
  if (ranks == 1) {
    out.copy_(rows[0]);
    return;
  }
  const auto item = static_cast<std::int64_t>(rows.element_size());
  const runtime::shm::RingOrder order(static_cast<std::size_t>(piece.whole * item),
                                      static_cast<std::size_t>(item), ranks);
  for (std::int64_t at = 0; at < rows.size(1);) {
    const int block = order.block_of(static_cast<std::size_t>((piece.first + at) * item));
    const auto block_end = static_cast<std::int64_t>(order.end_of_block(block)) / item - piece.first;
    const std::int64_t length = std::min(rows.size(1), block_end) - at;
    const auto row = [&](int step) { return rows[order.rank_at(block, step)].narrow(0, at, length); };
    at::Tensor sum = out.narrow(0, at, length);
    at::add_out(sum, row(0), row(1));
    for (int step = 2; step < ranks; ++step) sum.add_(row(step));
    at += length;
  }
}

}  // namespace ddprun::training
