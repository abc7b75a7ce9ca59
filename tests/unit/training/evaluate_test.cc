#include "tests/support/catch.h"
#include <ddprun/sharded_evaluation.h>

using ddprun::evaluation_shard;

TEST_CASE("every held-out sample is evaluated on exactly one rank") {
  for (const int world : {1, 2, 3, 7}) {
    std::vector<std::int64_t> all;
    for (int rank = 0; rank < world; ++rank) {
      const auto shard = evaluation_shard(10, rank, world);
      all.insert(all.end(), shard.begin(), shard.end());
    }
    CHECK(all == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  }
}

TEST_CASE("more ranks than samples leave some ranks without any") {
  CHECK(evaluation_shard(2, 0, 5).empty());
  CHECK(evaluation_shard(2, 4, 5) == std::vector<std::int64_t>{1});
}
