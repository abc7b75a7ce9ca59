#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace ddprun::runtime {

/// What a backend implements that has memory of its own, in which it reduces CPU tensors without copies.
class BucketMemory {
 public:
  /// From now on the CPU tensors that the calling thread allocates lie there, as far as there is room.
  virtual void use_on_this_thread() = 0;
  /// No longer. Tensors that lie there may outlive the backend.
  virtual void leave_on_this_thread() = 0;

 protected:
  ~BucketMemory() = default;
};

/// While it lives, CPU tensors that this thread allocates lie in the bucket memory of `group`'s backend for the CPU, if
/// that has one; otherwise memory is the usual. Meant for DDP's buckets: around the Reducer's constructor and around
/// rebuild_buckets(). Such tensors may outlive scope and group.
class BucketAllocationScope {
 public:
  /// `device` is where the buckets will be.
  BucketAllocationScope(c10d::ProcessGroup& group, const at::Device& device);
  ~BucketAllocationScope();
  BucketAllocationScope(const BucketAllocationScope&) = delete;
  BucketAllocationScope& operator=(const BucketAllocationScope&) = delete;

 private:
  c10::intrusive_ptr<c10d::Backend> backend_;  ///< keeps the memory, while it is in use
  BucketMemory* memory_ = nullptr;
};

}  // namespace ddprun::runtime
