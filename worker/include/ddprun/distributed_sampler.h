#pragma once

#include <cstdint>
#include <vector>

namespace ddprun {

struct DistributedSamplerOptions {
  int world_size = 1;
  int rank = 0;
  bool shuffle = true;
  /// Cut the tail so that every rank has the same number; otherwise samples from the start are repeated.
  bool drop_last = false;
  /// The same on every rank.
  std::uint64_t seed = 0;
};

/// Which samples of a data set this rank sees in an epoch: exactly those, in exactly the order, that Python's
/// torch.utils.data.DistributedSampler gives for the same arguments.
///
/// Not collective: each rank computes its own shard. Shards of one epoch have equal sizes.
class DistributedSampler {
 public:
  /// Throws Exception kConfig when the rank is outside the world or `dataset_size` is negative.
  DistributedSampler(std::int64_t dataset_size, const DistributedSamplerOptions& options);

  /// Chooses the epoch's permutation. Without it every epoch has the same order. Clears `start_at` and
  /// `start_after`.
  void set_epoch(std::int64_t epoch);

  /// Makes `indices()` leave out the first `samples` of this rank's shard of the epoch: for resuming inside one.
  void start_at(std::int64_t samples);

  /// Makes `indices()` leave out what all ranks together have seen of this epoch, its first `samples`,
  /// whatever the number of ranks was then: what is left is dealt out to the ranks of now, each sample once.
  /// As with a whole epoch the tail is then cut, or samples from the start are repeated, so that all ranks
  /// have the same number. In the same world it is start_at(samples / world_size).
  void start_after(std::int64_t samples);

  /// This rank's sample indices for the epoch, in order, without those that were skipped.
  [[nodiscard]] std::vector<std::int64_t> indices() const;

  /// The epoch's order over all ranks, padded or cut: rank r of W takes every W-th entry from entry r.
  [[nodiscard]] std::vector<std::int64_t> global_indices() const;

  /// Samples of this rank in a whole epoch; the same on every rank.
  [[nodiscard]] std::int64_t samples_per_rank() const { return samples_per_rank_; }
  [[nodiscard]] std::int64_t epoch() const { return epoch_; }

 private:
  std::int64_t dataset_size_;
  DistributedSamplerOptions options_;
  std::int64_t samples_per_rank_ = 0;
  std::int64_t epoch_ = 0;
  std::int64_t start_at_ = 0;     ///< of this rank's samples
  std::int64_t start_after_ = 0;  ///< of the samples of all ranks
};

}  // namespace ddprun
