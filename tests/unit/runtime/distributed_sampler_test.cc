#include "tests/support/catch.h"
#include <ddprun/distributed_sampler.h>
#include <ddprun/exception.h>

#include <unistd.h>

#include <algorithm>
#include <set>

namespace ddprun {
namespace {

using Indices = std::vector<std::int64_t>;

Indices shard(std::int64_t n, DistributedSamplerOptions options) {
  return DistributedSampler(n, options).indices();
}

TEST_CASE("the order is that of torch.randperm") {
  CHECK(shard(10, {.seed = 0}) == Indices{4, 1, 7, 5, 3, 9, 0, 8, 6, 2});
  CHECK(shard(0, {}).empty());
  CHECK(shard(1, {.seed = 5}) == Indices{0});
}

// From this number of samples on torch.randperm draws 64 bits at a time: torch.randperm(214748364, seed
// 5)[3::40000000]. Hidden, because it takes ten seconds and two gigabytes: a test of its own with the label
// interop.
TEST_CASE("the order of a very large data set is that of torch.randperm, too", "[.slow]") {
  constexpr std::int64_t kNeeded = std::int64_t{4} << 30;
  const std::int64_t free = ::sysconf(_SC_AVPHYS_PAGES) * ::sysconf(_SC_PAGESIZE);
  if (free < kNeeded) {
    WARN("left out: it takes " << kNeeded << " bytes of memory, and " << free << " are free");
    return;
  }
  CHECK(shard(214748364, {.world_size = 40000000, .rank = 3, .seed = 5}) ==
        Indices{193777243, 110698121, 140896446, 100115540, 167755325, 204950618});
}

TEST_CASE("shards are Python's, padded by repeating from the start") {
  CHECK(shard(10, {.world_size = 4, .rank = 0}) == Indices{4, 3, 6});
  CHECK(shard(10, {.world_size = 4, .rank = 1}) == Indices{1, 9, 2});
  CHECK(shard(10, {.world_size = 4, .rank = 2}) == Indices{7, 0, 4});
  CHECK(shard(10, {.world_size = 4, .rank = 3}) == Indices{5, 8, 1});
  CHECK(shard(10, {.world_size = 2, .rank = 0}) == Indices{4, 7, 3, 0, 6});
  CHECK(shard(10, {.world_size = 2, .rank = 1}) == Indices{1, 5, 9, 8, 2});
}

TEST_CASE("drop_last cuts the tail") {
  CHECK(shard(10, {.world_size = 4, .rank = 0, .drop_last = true}) == Indices{4, 3});
  CHECK(shard(10, {.world_size = 4, .rank = 3, .drop_last = true}) == Indices{5, 8});
}

TEST_CASE("a data set smaller than the world is repeated whole") {
  CHECK(shard(2, {.world_size = 5, .rank = 4, .shuffle = false}) == Indices{0});
  CHECK(shard(3, {.world_size = 8, .rank = 7, .shuffle = false}) == Indices{1});
  CHECK(shard(0, {.world_size = 2, .rank = 0}).empty());
}

TEST_CASE("an epoch has an order of its own, the same on every rank") {
  DistributedSampler sampler(100, {.world_size = 3, .rank = 1, .seed = 7});
  const Indices first = sampler.indices();
  sampler.set_epoch(1);
  CHECK(sampler.indices() != first);
  CHECK(sampler.global_indices() == DistributedSampler([] {
                                      DistributedSampler other(100, {.world_size = 3, .rank = 2, .seed = 7});
                                      other.set_epoch(1);
                                      return other;
                                    }())
                                        .global_indices());
  sampler.set_epoch(0);
  CHECK(sampler.indices() == first);
}

TEST_CASE("the shards of an epoch cover the data set") {
  std::set<std::int64_t> seen;
  for (int rank = 0; rank < 3; ++rank) {
    for (const auto index : shard(100, {.world_size = 3, .rank = rank})) seen.insert(index);
  }
  CHECK(seen.size() == 100);
}

TEST_CASE("resuming at a sample leaves out those before it, in this epoch only") {
  DistributedSampler sampler(10, {.world_size = 2, .rank = 0});
  sampler.start_at(3);
  CHECK(sampler.indices() == Indices{0, 6});
  sampler.set_epoch(1);
  CHECK(sampler.indices().size() == 5);
}

TEST_CASE("impossible arguments are named") {
  const auto message = [](auto&& action) -> std::string {
    try {
      action();
    } catch (const Exception& error) {
      CHECK(error.code() == ErrorCode::kConfig);
      return error.what();
    }
    return "nothing was thrown";
  };
  CHECK(message([] { DistributedSampler(10, {.world_size = 2, .rank = 2}); }) ==
        "distributed sampler: rank 2 is outside a world of 2; give rank and world_size of the same context");
  CHECK(message([] { DistributedSampler(-1, {}); }) == "distributed sampler: data set size -1 is negative");
  CHECK(message([] { DistributedSampler(10, {}).start_at(11); }) ==
        "distributed sampler: cannot start at sample 11 of rank 0; it has 10 samples in an epoch");
}

/// What all ranks of a world see of an epoch after its first `seen` samples, step by step.
std::vector<std::int64_t> rest_in_world(std::int64_t size, int world, std::int64_t seen, bool drop_last) {
  std::vector<std::vector<std::int64_t>> shards;
  for (int rank = 0; rank < world; ++rank) {
    DistributedSampler sampler(size, {.world_size = world, .rank = rank, .drop_last = drop_last, .seed = 5});
    sampler.set_epoch(3);
    sampler.start_after(seen);
    shards.push_back(sampler.indices());
  }
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < shards.front().size(); ++i) {
    for (const auto& shard : shards) all.push_back(shard.at(i));
  }
  return all;
}

TEST_CASE("an epoch that several worlds share sees every sample once") {
  // Any three worlds one after the other, each for three samples a rank.
  for (const std::vector<int>& worlds :
       std::vector<std::vector<int>>{{4, 3, 2}, {3, 2, 5}, {1, 4, 3}, {5, 3, 7}, {2, 3, 1}, {7, 5, 3}}) {
    constexpr std::int64_t kSize = 101;
    std::vector<std::int64_t> seen;
    for (std::size_t i = 0; i < worlds.size(); ++i) {
      std::vector<std::int64_t> rest =
          rest_in_world(kSize, worlds[i], static_cast<std::int64_t>(seen.size()), false);
      const bool is_last = i + 1 == worlds.size();
      if (!is_last) rest.resize(static_cast<std::size_t>(3 * worlds[i]));
      seen.insert(seen.end(), rest.begin(), rest.end());
    }
    // The last world repeats less than one sample a rank, as it does at the end of any epoch.
    CHECK(seen.size() - kSize < static_cast<std::size_t>(worlds.back()));
    seen.resize(kSize);
    std::sort(seen.begin(), seen.end());
    for (std::int64_t sample = 0; sample < kSize; ++sample)
      REQUIRE(seen[static_cast<std::size_t>(sample)] == sample);
  }
}

TEST_CASE("in the same world start_after is start_at") {
  for (const bool drop_last : {false, true}) {
    DistributedSampler one(23, {.world_size = 4, .rank = 3, .drop_last = drop_last});
    DistributedSampler other = one;
    one.start_at(2);
    other.start_after(8);
    CHECK(one.indices() == other.indices());
    other.start_after(1000);
    CHECK(other.indices().empty());
  }
}

}  // namespace
}  // namespace ddprun
