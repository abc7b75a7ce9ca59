#include "worker/training/batches/device_batches.h"

#include <utility>

namespace ddprun::training {
namespace {

const DataSource& either(const data::InBytes* bytes, const DataSource& source) {
  return bytes != nullptr ? *bytes : source;
}

}  // namespace

DeviceBatches::DeviceBatches(const DataSource& source, const std::vector<std::int64_t>& indices,
                             const data::LoaderOptions& options, const at::Device& device, CopyLane* lane)
    : DeviceBatches(source, data::split(indices, options.batch_size), options, device, lane) {}

DeviceBatches::DeviceBatches(const DataSource& source, data::BatchList batches,
                             const data::LoaderOptions& options, const at::Device& device, CopyLane* lane)
    : bytes_(lane != nullptr ? data::InBytes::of(source, options.batch_size) : nullptr),
      loader_(either(bytes_.get(), source), std::move(batches), options),
      prefetcher_([this] { return loader_.next(); }, lane, bytes_ ? bytes_->finish_on(device) : Finish{}) {}

}  // namespace ddprun::training
