#include "worker/training/ranks/rank_block.h"

#include "tests/support/catch.h"
#include <ddprun/exception.h>

#include <vector>

using namespace ddprun::training;

TEST_CASE("without virtual ranks a process is one rank") {
  const RankBlock block = rank_block(0, {.rank = 2, .world_size = 3});
  CHECK(block.ranks == 3);
  CHECK(block.first == 2);
  CHECK(block.count == 1);
  CHECK_FALSE(block.is_virtual);
}

TEST_CASE("virtual ranks are dealt out in neighbours, each to one process, in the order of the processes") {
  for (const int processes : {1, 2, 3, 4, 6, 12}) {
    std::vector<int> all;
    for (int process = 0; process < processes; ++process) {
      const RankBlock block = rank_block(12, {.rank = process, .world_size = processes});
      CHECK(block.ranks == 12);
      CHECK(block.is_virtual);
      for (std::size_t turn = 0; turn < block.count; ++turn) all.push_back(block.rank(turn));
    }
    CHECK(all == std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  }
}

TEST_CASE("what cannot be dealt out evenly is refused with what can") {
  CHECK_THROWS_WITH(
      rank_block(4, {.world_size = 3}),
      "/train/virtual_ranks: 4 virtual ranks cannot be dealt out evenly to 3 processes; start the "
      "job with 1, 2 or 4 of them, or set this to a multiple of 3");
  CHECK_THROWS_WITH(
      rank_block(1, {.world_size = 2}),
      "/train/virtual_ranks: 1 virtual rank cannot be dealt out evenly to 2 processes; start the "
      "job with 1 of them, or set this to a multiple of 2");
}
