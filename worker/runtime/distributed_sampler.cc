#include <ddprun/distributed_sampler.h>
#include <ddprun/exception.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace ddprun {
namespace {

// Samples each rank gets, as Python computes it: the tail is cut or the head repeated so that all are equal.
std::int64_t shard_size(std::int64_t dataset_size, const DistributedSamplerOptions& options) {
  const std::int64_t world = options.world_size;
  if (options.drop_last) return dataset_size / world;
  return (dataset_size + world - 1) / world;
}

void pad_by_repeating(std::vector<std::int64_t>& indices, std::size_t size) {
  const std::size_t original = indices.size();
  if (original == 0) return;
  indices.reserve(size);
  while (indices.size() < size) indices.push_back(indices[indices.size() % original]);
}

}  // namespace

std::vector<std::int64_t> python_randperm(std::int64_t n, std::uint64_t seed) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(std::max<std::int64_t>(n, 0)));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  // ATen's CPU generator takes the low half of the seed, and its randperm draws 32 bits below this length.
  std::mt19937 random(static_cast<std::uint32_t>(seed & std::numeric_limits<std::uint32_t>::max()));
  const std::size_t size = order.size();
  for (std::size_t i = 0; i + 1 < size; ++i) std::swap(order[i], order[i + random() % (size - i)]);
  return order;
}

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
  start_at_ = 0;
}

void DistributedSampler::start_at(std::int64_t samples) {
  if (samples < 0 || samples > samples_per_rank_) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("distributed sampler: cannot start at sample {} of rank {}; it has "
                                "{} samples in an epoch",
                                samples, options_.rank, samples_per_rank_));
  }
  start_at_ = samples;
}

std::vector<std::int64_t> DistributedSampler::global_indices() const {
  std::vector<std::int64_t> order;
  if (options_.shuffle) {
    order = python_randperm(dataset_size_, options_.seed + static_cast<std::uint64_t>(epoch_));
  } else {
    order.resize(static_cast<std::size_t>(dataset_size_));
    std::iota(order.begin(), order.end(), std::int64_t{0});
  }
  const auto total = static_cast<std::size_t>(samples_per_rank_ * options_.world_size);
  if (order.size() > total) order.resize(total);
  pad_by_repeating(order, total);
  return order;
}

std::vector<std::int64_t> DistributedSampler::indices() const {
  const std::vector<std::int64_t> order = global_indices();
  std::vector<std::int64_t> shard;
  if (order.empty()) return shard;
  shard.reserve(static_cast<std::size_t>(samples_per_rank_ - start_at_));
  for (std::int64_t sample = start_at_; sample < samples_per_rank_; ++sample) {
    shard.push_back(order[static_cast<std::size_t>(sample * options_.world_size + options_.rank)]);
  }
  return shard;
}

}  // namespace ddprun
