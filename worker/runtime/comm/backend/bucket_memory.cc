#include "worker/runtime/comm/backend/bucket_memory.h"

namespace ddprun::runtime {

BucketAllocationScope::BucketAllocationScope(c10d::ProcessGroup& group, const at::Device& device) {
  if (!device.is_cpu()) return;  // a group for GPUs alone has no backend for the CPU to ask
  backend_ = group.getBackend(c10::DeviceType::CPU);
  memory_ = dynamic_cast<BucketMemory*>(backend_.get());
  if (memory_ != nullptr) memory_->use_on_this_thread();
}

BucketAllocationScope::~BucketAllocationScope() {
  if (memory_ != nullptr) memory_->leave_on_this_thread();
}

}  // namespace ddprun::runtime
