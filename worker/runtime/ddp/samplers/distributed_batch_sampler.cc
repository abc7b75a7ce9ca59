#include <ddprun/distributed_batch_sampler.h>
#include <ddprun/exception.h>

#include <fmt/format.h>

#include <algorithm>

namespace ddprun {

DistributedBatchSampler::DistributedBatchSampler(DistributedSampler sampler, std::int64_t batch_size,
                                                 LastBatch last)
    : sampler_(sampler), batch_size_(batch_size), last_(last) {
  if (batch_size < 1) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("distributed batch sampler: batch size {}; expected at least 1", batch_size));
  }
}

void DistributedBatchSampler::start_at_batch(std::int64_t batches) {
  sampler_.start_at(std::min(batches * batch_size_, sampler_.samples_per_rank()));
}

std::int64_t DistributedBatchSampler::batches_per_epoch() const {
  const std::int64_t samples = sampler_.samples_per_rank();
  return last_ == LastBatch::kDrop ? samples / batch_size_ : (samples + batch_size_ - 1) / batch_size_;
}

std::vector<std::vector<std::int64_t>> DistributedBatchSampler::batches() const {
  const std::vector<std::int64_t> indices = sampler_.indices();
  const auto size = static_cast<std::size_t>(batch_size_);
  std::vector<std::vector<std::int64_t>> batches;
  for (std::size_t start = 0; start < indices.size(); start += size) {
    const std::size_t end = std::min(start + size, indices.size());
    if (end - start < size && last_ == LastBatch::kDrop) break;
    batches.emplace_back(indices.begin() + static_cast<std::ptrdiff_t>(start),
                         indices.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return batches;
}

}  // namespace ddprun
