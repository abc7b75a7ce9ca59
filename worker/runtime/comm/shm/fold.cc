#include "worker/runtime/comm/shm/fold.h"

#include "worker/runtime/comm/shm/round_up.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ddprun::runtime::shm {
namespace {

/// Partial sums of this many bytes stay in the first-level cache.
constexpr std::size_t kPieceBytes = 8192;

/// One piece within one block: the partial sum is kept apart, because a target may be a source still to come.
void fold_piece(const Folding& how, int block, std::size_t at, std::size_t bytes,
                std::span<const std::byte* const> sources, std::span<std::byte* const> targets) {
  const int ranks = static_cast<int>(sources.size());
  const auto source = [&](int step) {
    return sources[static_cast<std::size_t>(how.order.rank_at(block, step))] + at;
  };
  const std::size_t count = bytes / how.item_bytes;
  alignas(64) std::array<std::byte, kPieceBytes> partial;
  const std::byte* sum = source(0);
  for (int step = 1; step < ranks - 1; ++step) {
    how.kernels->combine(partial.data(), sum, source(step), count);
    sum = partial.data();
  }
  if (targets.size() == 2) {
    how.kernels->combine_two(targets[0] + at, targets[1] + at, sum, source(ranks - 1), count);
  } else if (targets.size() == 1) {
    how.kernels->combine(targets[0] + at, sum, source(ranks - 1), count);
  } else {
    how.kernels->combine(partial.data(), sum, source(ranks - 1), count);
    for (std::byte* const target : targets) std::memcpy(target + at, partial.data(), bytes);
  }
  if (!how.is_average) return;
  for (std::byte* const target : targets) how.kernels->divide(target + at, sources.size(), count);
}

}  // namespace

RingOrder::RingOrder(std::size_t total_bytes, std::size_t item_bytes, int ranks) : ranks_(ranks) {
  constexpr std::size_t kSegmentBytes = std::size_t{1} << 20U;
  const auto size = static_cast<std::size_t>(ranks);
  const std::size_t most = item_bytes * std::max<std::size_t>(1, kSegmentBytes / item_bytes);
  const std::size_t segments = round_up(std::max((total_bytes + most - 1) / most, 2 * size), size);
  const std::size_t segment_bytes = round_up((total_bytes + segments - 1) / segments, item_bytes);
  block_bytes_ = std::max<std::size_t>(1, segments / size * segment_bytes);
}

void fold(const Folding& how, std::size_t offset, std::size_t bytes,
          std::span<const std::byte* const> sources, std::span<std::byte* const> targets) {
  // Of two ranks there is no partial sum, so a piece may be as long as its block.
  const bool is_pair = sources.size() == 2 && targets.size() <= 2 && !how.is_average;
  const std::size_t most = is_pair ? bytes : kPieceBytes;
  std::size_t at = 0;
  while (at < bytes) {
    const int block = how.order.block_of(offset + at);
    const std::size_t to_block_end = how.order.end_of_block(block) - (offset + at);
    const std::size_t piece = std::min({most, to_block_end, bytes - at});
    fold_piece(how, block, at, piece, sources, targets);
    at += piece;
  }
}

}  // namespace ddprun::runtime::shm
