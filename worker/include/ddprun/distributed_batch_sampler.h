#pragma once

#include <ddprun/distributed_sampler.h>

#include <cstdint>
#include <vector>

namespace ddprun {

/// This rank's batches of an epoch, the same in every run: the sampler's order cut into pieces of
/// `batch_size`, as Python's BatchSampler does.
class DistributedBatchSampler {
 public:
  enum class LastBatch { kKeep, kDrop };  ///< what becomes of a last batch that is not full

  /// Throws Exception kConfig for a batch size below 1.
  DistributedBatchSampler(DistributedSampler sampler, std::int64_t batch_size,
                          LastBatch last = LastBatch::kKeep);

  void set_epoch(std::int64_t epoch) { sampler_.set_epoch(epoch); }
  /// Leaves out the first `batches` of this epoch: for resuming inside it.
  void start_at_batch(std::int64_t batches);

  [[nodiscard]] std::vector<std::vector<std::int64_t>> batches() const;
  /// Batches of a whole epoch.
  [[nodiscard]] std::int64_t batches_per_epoch() const;

 private:
  DistributedSampler sampler_;
  std::int64_t batch_size_;
  LastBatch last_;
};

}  // namespace ddprun
