#pragma once

#include <ddprun/trainer/batch.h>

#include <cstdint>
#include <memory>
#include <span>

namespace ddprun {

/// Which samples are wanted, and what their random changes depend on.
struct BatchRequest {
  std::span<const std::int64_t> indices;  ///< each in [0, size), in the order wanted
  std::uint64_t seed = 0;                 ///< of the job
  std::int64_t epoch = 0;
  bool pinned = false;  ///< page-locked memory, from which a GPU copies while it computes
};

/// Samples by index: training data, or what a model is judged by.
class DataSource {
 public:
  virtual ~DataSource();
  DataSource() = default;
  DataSource(const DataSource&) = delete;
  DataSource& operator=(const DataSource&) = delete;

  [[nodiscard]] virtual std::int64_t size() const = 0;
  [[nodiscard]] virtual const DataShape& shape() const = 0;

  /// The samples on the CPU. What is random in them follows from (seed, epoch, index) alone, so that a batch
  /// is the same whatever thread makes it, and after a resume.
  ///
  /// Threads  called by several at once.
  /// Errors   Exception kCorrupt, naming the sample, where its data is damaged.
  [[nodiscard]] virtual Batch make_batch(const BatchRequest& request) const = 0;
};

/// What a job trains on, and what it is judged by. Both have one shape.
struct DataSplits {
  std::shared_ptr<const DataSource> train;
  std::shared_ptr<const DataSource> held_out;
};

}  // namespace ddprun
