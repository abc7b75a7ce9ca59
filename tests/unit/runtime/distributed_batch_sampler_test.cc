#include "tests/support/catch.h"
#include <ddprun/distributed_batch_sampler.h>
#include <ddprun/exception.h>

namespace ddprun {
namespace {

using Batches = std::vector<std::vector<std::int64_t>>;
using LastBatch = DistributedBatchSampler::LastBatch;

// Rank 1 of 2 over ten samples in order: 1 3 5 7 9.
DistributedBatchSampler odd_numbers(std::int64_t batch_size, LastBatch last = LastBatch::kKeep) {
  return {DistributedSampler(10, {.world_size = 2, .rank = 1, .shuffle = false}), batch_size, last};
}

TEST_CASE("an epoch is cut into batches, the last one shorter") {
  CHECK(odd_numbers(2).batches() == Batches{{1, 3}, {5, 7}, {9}});
  CHECK(odd_numbers(2).batches_per_epoch() == 3);
  CHECK(odd_numbers(5).batches() == Batches{{1, 3, 5, 7, 9}});
  CHECK(odd_numbers(9).batches() == Batches{{1, 3, 5, 7, 9}});
}

TEST_CASE("a last batch that is not full can be dropped") {
  CHECK(odd_numbers(2, LastBatch::kDrop).batches() == Batches{{1, 3}, {5, 7}});
  CHECK(odd_numbers(2, LastBatch::kDrop).batches_per_epoch() == 2);
  CHECK(odd_numbers(5, LastBatch::kDrop).batches_per_epoch() == 1);
  CHECK(odd_numbers(9, LastBatch::kDrop).batches().empty());
}

TEST_CASE("resuming at a batch gives the batches that are left, in this epoch only") {
  DistributedBatchSampler sampler = odd_numbers(2);
  sampler.start_at_batch(1);
  CHECK(sampler.batches() == Batches{{5, 7}, {9}});
  CHECK(sampler.batches_per_epoch() == 3);
  sampler.start_at_batch(3);
  CHECK(sampler.batches().empty());
  sampler.set_epoch(1);
  CHECK(sampler.batches().size() == 3);
}

TEST_CASE("every rank has the same number of batches, and they are the same in every run") {
  std::vector<Batches> by_rank;
  for (int rank = 0; rank < 3; ++rank) {
    const DistributedSampler sampler(100, {.world_size = 3, .rank = rank, .seed = 5});
    by_rank.push_back(DistributedBatchSampler(sampler, 8).batches());
    CHECK(by_rank.back() == DistributedBatchSampler(sampler, 8).batches());
    CHECK(by_rank.back().size() == by_rank.front().size());
  }
  CHECK(by_rank[0] != by_rank[1]);
}

TEST_CASE("a batch size below 1 is refused") {
  CHECK_THROWS_WITH(odd_numbers(0), "distributed batch sampler: batch size 0; expected at least 1");
}

}  // namespace
}  // namespace ddprun
