#include "worker/runtime/comm/shm/fold.h"

#include "tests/support/catch.h"

#include <array>
#include <cmath>
#include <limits>
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

// gloo's ring computes std::min(own, handed down) and std::max(own, handed down): the first of two that are equal or
// cannot be compared.
TEST_CASE("min and max keep of NaN and of 0 what gloo's ring keeps, whoever gets the result") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t ranks : {2, 3}) {
    for (std::size_t targets = 1; targets <= ranks; ++targets) {
      for (const float special : {kNan, -0.0F}) {
        const float other = std::isnan(special) ? 1.0F : 0.0F;
        // One element a block; two ranks' blocks are two segments of one element each.
        const RingOrder order(2 * ranks * sizeof(float), sizeof(float), static_cast<int>(ranks));
        std::vector<std::vector<float>> data(ranks, std::vector<float>(2 * ranks, other));
        data[0].assign(2 * ranks, special);
        std::vector<const std::byte*> sources;
        std::vector<std::byte*> outs;
        for (auto& of_rank : data) {
          sources.push_back(reinterpret_cast<const std::byte*>(of_rank.data()));
          if (outs.size() < targets) outs.push_back(reinterpret_cast<std::byte*>(of_rank.data()));
        }
        fold({.kernels = find_kernels(DType::kFloat32, ReduceOp::kMax),
              .item_bytes = sizeof(float),
              .is_average = false,
              .order = order},
             0, 2 * ranks * sizeof(float), sources, outs);
        for (std::size_t i = 0; i < 2 * ranks; ++i) {
          // A block ends at the rank of its number, which takes its own.
          const bool is_special = order.block_of(i * sizeof(float)) == 0;
          INFO(ranks << " ranks, " << targets << " targets, " << special << ", element " << i);
          CHECK((std::isnan(data[0][i]) || std::signbit(data[0][i])) == is_special);
        }
      }
    }
  }
}
