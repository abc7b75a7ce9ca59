#include <ddprun/distributed_sampler.h>
#include <ddprun/exception.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randperm.h>
#include <fmt/format.h>

#include <algorithm>

namespace ddprun {
namespace {

// Samples each rank gets, as Python computes it: the tail is cut or the head repeated so that all are equal.
std::int64_t shard_size(std::int64_t dataset_size, const DistributedSamplerOptions& options) {
  const std::int64_t world = options.world_size;
  if (options.drop_last) return dataset_size / world;
  return (dataset_size + world - 1) / world;
}

// The order of an epoch without end: the data set's samples, permuted or not, again and again. Python's own
// permutation, because it is made by Python's own code.
class Order {
 public:
  Order(std::int64_t dataset_size, const DistributedSamplerOptions& options, std::int64_t epoch)
      : size_(dataset_size) {
    if (!options.shuffle) return;
    const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(epoch);
    permutation_ = at::randperm(dataset_size, at::detail::createCPUGenerator(seed), at::kLong);
    permuted_ = permutation_.const_data_ptr<std::int64_t>();
  }
  [[nodiscard]] std::int64_t at(std::int64_t place) const {
    if (place >= size_) place %= size_;
    return permuted_ == nullptr ? place : permuted_[place];
  }

 private:
  std::int64_t size_;
  at::Tensor permutation_;
  const std::int64_t* permuted_ = nullptr;
};

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t dataset_size, const DistributedSamplerOptions& options)
    : dataset_size_(dataset_size), options_(options) {
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("distributed sampler: rank {} is outside a world of {}; give rank "
                                "and world_size of the same context",
                                options.rank, options.world_size));
  }
  if (dataset_size < 0) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("distributed sampler: data set size {} is negative", dataset_size));
  }
  samples_per_rank_ = shard_size(dataset_size, options);
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  start_at_ = start_after_ = 0;
}

void DistributedSampler::start_at(std::int64_t samples) {
  if (samples < 0 || samples > samples_per_rank_) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("distributed sampler: cannot start at sample {} of rank {}; it has "
                                "{} samples in an epoch",
                                samples, options_.rank, samples_per_rank_));
  }
  start_at_ = samples;
  start_after_ = 0;
}

void DistributedSampler::start_after(std::int64_t samples) {
  if (samples < 0) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("distributed sampler: cannot start after {} samples; expected 0 or more", samples));
  }
  start_at_ = 0;
  start_after_ = std::min(samples, dataset_size_);
}

std::vector<std::int64_t> DistributedSampler::global_indices() const {
  const Order order(dataset_size_, options_, epoch_);
  const std::int64_t total = samples_per_rank_ * options_.world_size;
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(total));
  for (std::int64_t place = 0; place < total; ++place) indices.push_back(order.at(place));
  return indices;
}

std::vector<std::int64_t> DistributedSampler::indices() const {
  const Order order(dataset_size_, options_, epoch_);
  const std::int64_t count = shard_size(dataset_size_ - start_after_, options_);
  std::vector<std::int64_t> shard;
  shard.reserve(static_cast<std::size_t>(count - start_at_));
  for (std::int64_t sample = start_at_; sample < count; ++sample)
    shard.push_back(order.at(start_after_ + sample * options_.world_size + options_.rank));
  return shard;
}

}  // namespace ddprun
