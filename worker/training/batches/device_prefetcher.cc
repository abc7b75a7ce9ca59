#include "worker/training/batches/device_prefetcher.h"

#include <utility>

namespace ddprun::training {

DevicePrefetcher::DevicePrefetcher(Take take, CopyLane* lane, Finish finish)
    : take_(std::move(take)), lane_(lane), finish_(std::move(finish)) {}

std::optional<Batch> DevicePrefetcher::next() {
  if (lane_ == nullptr) return take_();
  prefetch();
  if (failure_) std::rethrow_exception(failure_);
  if (!ahead_) return std::nullopt;
  std::optional<Batch> batch = std::exchange(ahead_, std::nullopt);
  lane_->join(*batch);
  return batch;
}

void DevicePrefetcher::prefetch() {
  if (lane_ == nullptr || ahead_ || failure_ || is_over_) return;
  try {
    const std::optional<Batch> taken = take_();
    is_over_ = !taken;
    if (taken) ahead_ = lane_->begin(*taken, finish_);
  } catch (...) {
    failure_ = std::current_exception();
  }
}

}  // namespace ddprun::training
