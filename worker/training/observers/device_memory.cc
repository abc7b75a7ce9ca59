#include "worker/training/observers/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace ddprun::training {

std::int64_t device_bytes(const c10::Device& device) {
  if (device.is_cpu()) return 0;
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  if (allocator == nullptr || !allocator->initialized()) return 0;
  constexpr auto kAllPools = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return allocator->getDeviceStats(device.index()).reserved_bytes[kAllPools].current;
}

}  // namespace ddprun::training
