#include "worker/training/batches/epoch_rest.h"

#include "tests/support/catch.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::training;

namespace {

constexpr std::uint64_t kSeed = 5;

EpochDeal deal_of(std::int64_t samples, std::int64_t seen, std::int64_t batch_size, std::int64_t least = 1) {
  return {.samples = samples,
          .sampler = {.seed = kSeed},
          .seen = seen,
          .batch_size = batch_size,
          .is_of_another_world = true,
          .least = least};
}

/// What each rank of a world learns from, batch by batch, and how much the first one counts; by rank.
struct Learned {
  std::vector<data::BatchList> batches;
  std::vector<double> weights;
  std::int64_t told = 0;  ///< as many, by samples_of
};

Learned learned_in(int ranks, const EpochDeal& deal) {
  Learned learned;
  for (int rank = 0; rank < ranks; ++rank) {
    const EpochRest rest({.ranks = ranks, .first = rank, .count = 1}, deal);
    learned.batches.push_back(rest.batches(1));
    const std::int64_t first = std::min<std::int64_t>(rest.batch_count(), 1);
    const std::vector<std::vector<double>> weights = rest.weights_of_first(first);
    learned.weights.push_back(weights.empty() ? 1 : weights.at(0).at(0));
    learned.told = rest.samples_of(0, rest.batch_count());
  }
  return learned;
}

/// The samples of all batches that count.
std::vector<std::int64_t> all_samples(const Learned& learned) {
  std::vector<std::int64_t> all;
  for (std::size_t rank = 0; rank < learned.batches.size(); ++rank) {
    for (std::size_t i = 0; i < learned.batches[rank].size(); ++i) {
      if (i == 0 && learned.weights[rank] == 0) continue;
      const std::vector<std::int64_t>& batch = learned.batches[rank][i];
      all.insert(all.end(), batch.begin(), batch.end());
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

/// What an epoch still has after its first `seen` samples.
std::vector<std::int64_t> samples_after(std::int64_t samples, std::int64_t seen) {
  std::vector<std::int64_t> order =
      DistributedSampler(samples, {.world_size = 1, .rank = 0, .seed = kSeed}).global_indices();
  order.erase(order.begin(), order.begin() + seen);
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

TEST_CASE("the rest of an epoch that another world began comes once, in as many batches on each rank") {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (std::int64_t seen = 1; seen < 101; ++seen) {
      for (const std::int64_t batch_size : {1, 2, 3, 4, 8, 64}) {
        CAPTURE(ranks, seen, batch_size);
        const Learned learned = learned_in(ranks, deal_of(101, seen, batch_size));
        REQUIRE(all_samples(learned) == samples_after(101, seen));
        REQUIRE(learned.told == 101 - seen);
        // As many as where samples are repeated.
        const std::int64_t per_rank = (101 - seen + ranks - 1) / ranks;
        REQUIRE(learned.batches.front().size() ==
                static_cast<std::size_t>((per_rank + batch_size - 1) / batch_size));
        for (const data::BatchList& batches : learned.batches) {
          REQUIRE(batches.size() == learned.batches.front().size());
          for (const std::vector<std::int64_t>& batch : batches) {
            REQUIRE(!batch.empty());
            REQUIRE(batch.size() <= static_cast<std::size_t>(batch_size));
          }
        }
      }
    }
  }
}

TEST_CASE("what normalizes batches never gets one of one sample") {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (std::int64_t seen = 1; seen < 101; ++seen) {
      for (const std::int64_t batch_size : {4, 5, 8, 64}) {
        CAPTURE(ranks, seen, batch_size);
        const Learned learned = learned_in(ranks, deal_of(101, seen, batch_size, 2));
        REQUIRE(learned.told == 101 - seen);
        // One alone has another one beside it.
        if (seen < 100) REQUIRE(all_samples(learned) == samples_after(101, seen));
        for (const data::BatchList& batches : learned.batches) {
          REQUIRE(batches.size() == learned.batches.front().size());
          for (const std::vector<std::int64_t>& batch : batches) {
            REQUIRE(batch.size() >= 2);
            REQUIRE(batch.size() <= static_cast<std::size_t>(batch_size));
          }
        }
      }
    }
  }
}

TEST_CASE("each sample of a first batch counts alike in the mean over ranks") {
  for (const std::int64_t seen : {50, 90, 95, 97, 98, 99, 100}) {
    for (const std::int64_t least : {1, 2}) {
      for (const std::int64_t batch_size : {4, 64}) {
        CAPTURE(seen, least, batch_size);
        constexpr int kRanks = 4;
        if (least == 2 && seen == 100) continue;
        const Learned learned = learned_in(kRanks, deal_of(101, seen, batch_size, least));
        double samples = 0;
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
          if (learned.weights[rank] > 0) samples += static_cast<double>(learned.batches[rank].front().size());
        }
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
          if (learned.weights[rank] == 0) continue;
          // A sample's part of the mean over a batch, of the mean over ranks.
          const double part =
              learned.weights[rank] / static_cast<double>(learned.batches[rank].front().size()) / kRanks;
          REQUIRE(std::abs(part - 1 / samples) < 1e-12);
        }
      }
    }
  }
}

TEST_CASE("each sample of a first step of several batches counts alike") {
  constexpr int kRanks = 8;
  constexpr std::int64_t kBatches = 3;
  // 41 samples in batches of 1, and 43 in batches of 4: 5 and 2 of them on each rank.
  for (const auto& [seen, batch_size] : {std::pair{60, 1}, std::pair{58, 4}}) {
    double samples = 0;
    std::vector<double> parts;
    for (int rank = 0; rank < kRanks; ++rank) {
      const EpochRest rest({.ranks = kRanks, .first = rank, .count = 1}, deal_of(101, seen, batch_size));
      const std::int64_t count = std::min(rest.batch_count(), kBatches);
      const data::BatchList batches = rest.batches(1);
      const std::vector<double> weights = rest.weights_of_first(count).at(0);
      REQUIRE(weights.size() == static_cast<std::size_t>(count));
      samples = static_cast<double>(rest.samples_of(0, count));
      for (std::size_t i = 0; i < weights.size(); ++i) {
        if (weights[i] > 0) parts.push_back(weights[i] / static_cast<double>(batches[i].size()) / kRanks);
      }
    }
    for (const double part : parts) REQUIRE(std::abs(part - 1 / samples) < 1e-12);
  }
}

TEST_CASE("after its first batch the rest of an epoch goes on in its world as if there had been no other") {
  for (const std::int64_t least : {1, 2}) {
    for (std::int64_t seen = 1; seen < 95; ++seen) {
      for (const int ranks : {2, 3, 4}) {
        CAPTURE(least, seen, ranks);
        const RankBlock block{.ranks = ranks, .first = ranks - 1, .count = 1};
        EpochDeal deal = deal_of(101, seen, 4, least);
        const EpochRest rest(block, deal);
        data::BatchList expected = rest.batches(1);
        expected.erase(expected.begin());
        deal.seen += rest.samples_of(0, 1);
        deal.is_of_another_world = false;
        const EpochRest later(block, deal);
        REQUIRE(later.weights_of_first(1).empty());
        if (!expected.empty()) REQUIRE(later.batches(1) == expected);
      }
    }
  }
}

TEST_CASE("in a world of its own an epoch is dealt out as Python's DistributedSampler does") {
  EpochDeal deal = deal_of(101, 0, 8, 2);
  deal.is_of_another_world = false;
  const RankBlock block{.ranks = 4, .first = 3, .count = 1};
  const EpochRest rest(block, deal);
  CHECK(rest.weights_of_first(1).empty());
  CHECK(rest.samples_of(0, rest.batch_count()) == 104);
  CHECK(rest.batches(1) ==
        data::split(DistributedSampler(101, {.world_size = 4, .rank = 3, .seed = kSeed}).indices(), 8));
}

TEST_CASE("what is dropped at an epoch's end stays dropped in another world") {
  EpochDeal deal = deal_of(101, 50, 8);
  deal.sampler.drop_last = true;
  const Learned learned = learned_in(4, deal);
  CHECK(learned.told == 48);  // of 51
  CHECK(learned.weights == std::vector<double>{1, 1, 1, 1});
  deal.seen = 99;
  CHECK(learned_in(4, deal).batches.front().empty());
}

TEST_CASE("a last batch that is smaller is left out where that is wanted, also of another world's rest") {
  EpochDeal deal = deal_of(101, 0, 8);
  deal.is_of_another_world = false;
  deal.drops_last_batch = true;
  for (const data::BatchList& batches : learned_in(4, deal).batches) {  // 26 samples of each rank
    CHECK(batches.size() == 3);
    CHECK(batches.back().size() == 8);
  }
  deal = deal_of(101, 50, 8);
  deal.drops_last_batch = true;
  for (const data::BatchList& batches : learned_in(4, deal).batches) {  // of 51 samples 32
    CHECK(batches.size() == 1);
    CHECK(batches.back().size() == 8);
  }
  deal.seen = 90;
  CHECK(learned_in(4, deal).batches.front().empty());
}

TEST_CASE("a process of several ranks has their batches in turns") {
  const EpochRest rest({.ranks = 4, .first = 2, .count = 2}, deal_of(12, 1, 2));  // 11: 3, 3, 3 and 2
  const data::BatchList batches = rest.batches(1);
  REQUIRE(batches.size() == 4);
  std::vector<std::size_t> sizes;
  for (const auto& batch : batches) sizes.push_back(batch.size());
  CHECK(sizes == std::vector<std::size_t>{2, 1, 1, 1});
  CHECK(rest.of_batches(0, 1) == EpochRest::Samples{batches[0], batches[1]});
  CHECK(rest.of_batches(1, 1) == EpochRest::Samples{batches[2], batches[3]});
  CHECK(rest.samples_of(0, 1) == 7);
  CHECK(rest.samples_of(1, 1) == 4);
}

TEST_CASE("where nothing is left there is no batch") {
  CHECK(EpochRest().batch_count() == 0);
  CHECK(EpochRest().batches(2).empty());
}
