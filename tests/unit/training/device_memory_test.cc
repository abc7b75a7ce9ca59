#include "worker/training/observers/device_memory.h"

#include "tests/support/catch.h"

#include <c10/core/CachingDeviceAllocator.h>

using namespace ddprun::training;

namespace {

constexpr auto kNobodysDevice = c10::DeviceType::PrivateUse1;

/// Stands for a GPU's, and has taken 3 GiB of device 1.
struct FakeAllocator final : c10::DeviceAllocator {
  bool is_ready = false;
  bool initialized() override { return is_ready; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  void recordStream(const c10::DataPtr& /*data*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.reserved_bytes[0].current = device == 1 ? std::int64_t{3} << 30 : 0;
    stats.allocated_bytes[0].current = 1;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex /*device*/) override {}
  c10::DataPtr allocate(std::size_t /*bytes*/) override { return {}; }
  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) const override {}
};

}  // namespace

TEST_CASE("the memory of a GPU is what the allocator has taken of it, and none of a CPU") {
  CHECK(device_bytes(c10::Device("cpu")) == 0);
  CHECK(device_bytes({kNobodysDevice, 1}) == 0);  // without an allocator
  static FakeAllocator allocator;                 // libtorch keeps it
  c10::SetAllocator(kNobodysDevice, &allocator, 255);
  CHECK(device_bytes({kNobodysDevice, 1}) == 0);
  allocator.is_ready = true;
  CHECK(device_bytes({kNobodysDevice, 1}) == std::int64_t{3} << 30);
  CHECK(device_bytes({kNobodysDevice, 0}) == 0);
}
