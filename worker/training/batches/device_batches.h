#pragma once

#include "worker/data/byte_images.h"
#include "worker/data/loader.h"
#include "worker/training/batches/device_prefetcher.h"

#include <memory>
#include <optional>
#include <vector>

namespace ddprun::training {

/// Batches of a source on a device, in their order: loaded by threads, copied while the device computes, and, where
/// that saves time, as bytes of which the device makes the numbers, the same to the last bit. On the CPU they are the
/// loader's own.
///
/// Lifetime  source and lane outlive it.
class DeviceBatches {
 public:
  /// lane  of `device`, from make_copy_lane
  DeviceBatches(const DataSource& source, data::BatchList batches, const data::LoaderOptions& options,
                const at::Device& device, CopyLane* lane);
  /// Those of one shard.
  DeviceBatches(const DataSource& source, const std::vector<std::int64_t>& indices,
                const data::LoaderOptions& options, const at::Device& device, CopyLane* lane);

  /// As those of DevicePrefetcher.
  std::optional<Batch> next() { return prefetcher_.next(); }
  void prefetch() { prefetcher_.prefetch(); }

  [[nodiscard]] std::int64_t batch_count() const { return loader_.batch_count(); }

 private:
  std::unique_ptr<data::InBytes> bytes_;  ///< null: the source is taken as it is
  data::BatchLoader loader_;
  DevicePrefetcher prefetcher_;
};

}  // namespace ddprun::training
