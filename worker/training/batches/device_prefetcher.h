#pragma once

#include "worker/training/batches/copy_lane.h"

#include <exception>
#include <functional>
#include <optional>

namespace ddprun::training {

/// Batches in the order in which they are taken from somewhere, each on its way to the device while the one before it
/// is computed on.
///
/// Threads  called by one.
class DevicePrefetcher {
 public:
  /// The next batch, or nullopt after the last; may throw.
  using Take = std::function<std::optional<Batch>()>;

  /// lane  null: batches stay where they are, and none is taken before it is wanted
  DevicePrefetcher(Take take, CopyLane* lane, Finish finish = {});

  /// The next batch, on the device, or nullopt after the last. Throws what `take` threw in its place.
  std::optional<Batch> next();

  /// Takes the batch of the next next() and begins to copy it; once all the work on the last one is begun, so that
  /// nothing on the device waits for a slow `take`. One at most is taken ahead.
  void prefetch();

 private:
  Take take_;
  CopyLane* lane_;
  Finish finish_;
  std::optional<Batch> ahead_;
  std::exception_ptr failure_;
  bool is_over_ = false;
};

}  // namespace ddprun::training
