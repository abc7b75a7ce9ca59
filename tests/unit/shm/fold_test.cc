#include "worker/runtime/comm/shm/fold.h"

#include "tests/support/catch.h"

#include <array>
#include <vector>

using namespace ddprun::runtime::shm;

namespace {

std::vector<int> order_of(const RingOrder& order, int block, int ranks) {
  std::vector<int> result;
  for (int step = 0; step < ranks; ++step) result.push_back(order.rank_at(block, step));
  return result;
}

}  // namespace

TEST_CASE("a block's sum starts one rank below it and goes down the ring") {
  const RingOrder order(4096, 4, 4);
  CHECK(order_of(order, 0, 4) == std::vector{3, 2, 1, 0});
  CHECK(order_of(order, 1, 4) == std::vector{0, 3, 2, 1});
  CHECK(order_of(order, 3, 4) == std::vector{2, 1, 0, 3});
}

TEST_CASE("blocks are whole segments: two a rank, and more where a segment would pass 1 MiB") {
  // 12 bytes over 3 ranks: 6 segments of one element of 4 bytes (rounded up), two a block.
  const RingOrder small(12, 4, 3);
  CHECK(small.end_of_block(0) == 8);
  CHECK(small.block_of(8) == 1);
  // 3 MiB over 2 ranks: 4 segments of 786,432 bytes.
  CHECK(RingOrder(3U << 20U, 4, 2).end_of_block(0) == 2 * 786432U);
}

TEST_CASE("fold adds in ring order, piece by piece, across blocks") {
  constexpr int kRanks = 3;
  constexpr std::size_t kCount = 9000;
  std::array<std::vector<float>, kRanks> data;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    for (std::size_t i = 0; i < kCount; ++i) {
      data[rank].push_back(1.0F / static_cast<float>(1 + (i * (rank + 3)) % 977));
    }
  }
  const RingOrder order(kCount * 4, 4, kRanks);
  std::vector<float> expected;
  for (std::size_t i = 0; i < kCount; ++i) {
    const int block = order.block_of(i * 4);
    float sum = data[static_cast<std::size_t>(order.rank_at(block, 0))][i];
    for (int step = 1; step < kRanks; ++step)
      sum += data[static_cast<std::size_t>(order.rank_at(block, step))][i];
    expected.push_back(sum);
  }
  std::vector<const std::byte*> sources;
  for (const auto& of_rank : data) sources.push_back(reinterpret_cast<const std::byte*>(of_rank.data()));
  std::vector<float> out(kCount);
  const std::array targets{reinterpret_cast<std::byte*>(out.data()),
                           reinterpret_cast<std::byte*>(data[1].data())};
  fold({.kernels = find_kernels(DType::kFloat32, ReduceOp::kSum),
        .item_bytes = 4,
        .is_average = false,
        .order = order},
       0, kCount * 4, sources, targets);
  CHECK(out == expected);
  CHECK(data[1] == expected);
}
