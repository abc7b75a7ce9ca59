#include "worker/data/byte_images.h"

#include <utility>

namespace ddprun::data {
namespace {

/// Of a batch's numbers. Three quarters of that take a bus of 25 GB/s as long as four small kernels take to start.
constexpr std::int64_t kLeastBytes = std::int64_t{1} << 20;

std::int64_t bytes_of_numbers(const DataShape& shape, std::int64_t batch_size) {
  std::int64_t bytes = batch_size * static_cast<std::int64_t>(sizeof(float));
  for (const std::int64_t size : shape.tensors[0].sizes) bytes *= size;
  return bytes;
}

}  // namespace

std::unique_ptr<InBytes> InBytes::of(const DataSource& source, std::int64_t batch_size) {
  const auto* const bytes = dynamic_cast<const ByteImages*>(&source);
  if (bytes == nullptr || bytes->end_of_bytes() == nullptr) return nullptr;
  if (bytes_of_numbers(source.shape(), batch_size) < kLeastBytes) return nullptr;
  return std::unique_ptr<InBytes>(new InBytes(source, *bytes));
}

InBytes::InBytes(const DataSource& source, const ByteImages& bytes)
    : source_(source), bytes_(bytes), shape_(source.shape()) {
  shape_.tensors[0].dtype = at::kByte;
}

Batch InBytes::make_batch(const BatchRequest& request) const { return bytes_.make_byte_batch(request); }

std::function<Batch(Batch)> InBytes::finish_on(const at::Device& device) const {
  return [make_numbers = bytes_.end_of_bytes()->on(device)](Batch batch) {
    batch.tensors[0] = make_numbers(batch.tensors[0]);
    return batch;
  };
}

}  // namespace ddprun::data
