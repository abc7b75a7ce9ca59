#pragma once

#include <ddprun/trainer/batch.h>

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace ddprun::training {

/// `batch` on `device`, without waiting for the copy of pinned memory.
Batch to_device(const Batch& batch, const at::Device& device);

/// What is still to be done with a batch when it is on its device. Empty: nothing.
using Finish = std::function<Batch(Batch)>;

/// Takes batches to a device beside what is computed there.
class CopyLane {
 public:
  virtual ~CopyLane() = default;
  CopyLane() = default;
  CopyLane(const CopyLane&) = delete;
  CopyLane& operator=(const CopyLane&) = delete;

  /// Begins to copy `batch` and then to `finish` it; does not wait. What it returns is to be joined before it is used.
  virtual Batch begin(const Batch& batch, const Finish& finish) = 0;

  /// What is computed from now on may use `batch`, the last that was begun: it comes after the copy, and the batch's
  /// memory is not given to another one before it is done.
  virtual void join(const Batch& batch) = 0;
};

/// A stream of its own on `device`; null for the CPU, where nothing is copied.
std::unique_ptr<CopyLane> make_copy_lane(const at::Device& device);

/// The same for any device whose kind libtorch knows streams and events of.
std::unique_ptr<CopyLane> make_copy_stream(const at::Device& device);

}  // namespace ddprun::training
