#pragma once

#include "worker/data/loader.h"
#include "worker/training/ranks/rank_block.h"
#include <ddprun/distributed_sampler.h>

#include <cstdint>
#include <vector>

namespace ddprun::training {

/// How an epoch is dealt out.
struct EpochDeal {
  std::int64_t samples = 0;           ///< of the training data
  DistributedSamplerOptions sampler;  ///< of whichever rank
  std::int64_t epoch = 0;
  std::int64_t seen = 0;  ///< of the epoch, by all ranks together
  std::int64_t batch_size = 1;
  bool drops_last_batch = false;  ///< where it would be smaller than the others
  /// Another number of ranks has seen them.
  bool is_of_another_world = false;
  /// Samples of a batch that the model learns from: 2 where it normalizes batches, which are of 4 or more then.
  std::int64_t least = 1;
};

/// What is left of an epoch for the ranks of one process: its batches, as many on each rank.
///
/// A world of its own from the epoch's beginning has what DistributedSampler deals out, which repeats samples at the
/// end where the ranks do not divide them (or drops them), as Python's does. The rest of an epoch that another world
/// began comes once: the first batch is made so much smaller that the ranks divide what comes after it, and need not be
/// as large on each rank. Where there are fewer samples than that, some ranks have none in it; since no rank can stay
/// away from a step, these have other ones, which do not count. (One sample alone, of which such a model cannot learn,
/// has another one beside it.)
class EpochRest {
 public:
  using Samples = std::vector<std::vector<std::int64_t>>;

  /// Nothing is left.
  EpochRest() = default;
  EpochRest(const RankBlock& block, const EpochDeal& deal);

  /// Of each rank.
  [[nodiscard]] std::int64_t batch_count() const {
    return by_turn_.empty() ? 0 : static_cast<std::int64_t>(by_turn_.front().size());
  }
  /// Those of all ranks of this process in turns: the first `per_turn` of each, then the next ones.
  [[nodiscard]] data::BatchList batches(std::int64_t per_turn) const {
    return data::in_turns(by_turn_, per_turn);
  }
  /// By turn, what is in `count` batches from `first` on.
  [[nodiscard]] Samples of_batches(std::int64_t first, std::int64_t count) const;
  /// How many these are on all ranks of the job, without those that do not count.
  [[nodiscard]] std::int64_t samples_of(std::int64_t first, std::int64_t count) const;

  /// By turn, how much each of `count` batches from the first on counts, so that in the mean over ranks of their sums
  /// all samples count alike. Empty where the first batch is as large as any.
  [[nodiscard]] std::vector<std::vector<double>> weights_of_first(std::int64_t count) const;

 private:
  void deal_first(const RankBlock& block, const EpochDeal& deal, std::int64_t count);

  int ranks_ = 1;
  std::vector<data::BatchList> by_turn_;
  std::int64_t in_first_ = 0;  ///< samples of all ranks
  /// Of each turn, without those that do not count; empty where the first batch is as large as any.
  std::vector<std::int64_t> counted_in_first_;
};

}  // namespace ddprun::training
