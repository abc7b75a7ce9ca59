#include "worker/data/loader.h"

#include <ddprun/exception.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

namespace ddprun::data {
namespace {

/// A source that is not ours may give something else than it says.
void check_batch(const Batch& batch, std::int64_t samples, const DataShape& shape) {
  const auto refuse = [](const std::string& why) {
    throw Exception(ErrorCode::kCorrupt, "the data source gave a wrong batch: " + why);
  };
  if (batch.samples != samples)
    refuse(fmt::format("it says {} samples, asked for {}", batch.samples, samples));
  if (batch.tensors.size() != shape.tensors.size())
    refuse(fmt::format("{} tensors, and its shape has {}", batch.tensors.size(), shape.tensors.size()));
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    const TensorShape& wanted = shape.tensors[i];
    std::vector<std::int64_t> sizes{samples};
    sizes.insert(sizes.end(), wanted.sizes.begin(), wanted.sizes.end());
    const at::Tensor& tensor = batch.tensors[i];
    if (!tensor.defined() || tensor.sizes() != at::IntArrayRef(sizes) ||
        tensor.scalar_type() != wanted.dtype) {
      refuse(fmt::format("\"{}\" is {} [{}], and its shape says {} [{}]", wanted.name,
                         tensor.defined() ? at::toString(tensor.scalar_type()) : "nothing",
                         fmt::join(tensor.defined() ? tensor.sizes() : at::IntArrayRef(), ", "),
                         at::toString(wanted.dtype), fmt::join(sizes, ", ")));
    }
  }
}

}  // namespace

BatchList split(const std::vector<std::int64_t>& shard, std::int64_t batch_size) {
  BatchList batches;
  const auto length = static_cast<std::int64_t>(shard.size());
  for (std::int64_t at = 0; at < length; at += batch_size)
    batches.emplace_back(shard.begin() + at, shard.begin() + std::min(at + batch_size, length));
  return batches;
}

BatchList in_turns(const std::vector<BatchList>& shards, std::int64_t per_turn) {
  BatchList batches;
  const auto length = static_cast<std::int64_t>(shards.empty() ? 0 : shards.front().size());
  for (std::int64_t at = 0; at < length; at += per_turn) {
    for (const BatchList& shard : shards)
      batches.insert(batches.end(), shard.begin() + at, shard.begin() + std::min(at + per_turn, length));
  }
  return batches;
}

BatchLoader::BatchLoader(const DataSource& source, const std::vector<std::int64_t>& indices,
                         const LoaderOptions& options)
    : BatchLoader(source, split(indices, options.batch_size), options) {}

BatchLoader::BatchLoader(const DataSource& source, BatchList batches, const LoaderOptions& options)
    : source_(source), batches_(std::move(batches)), options_(options) {
  const auto threads = std::min<std::int64_t>(options_.threads, batch_count());
  for (std::int64_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

BatchLoader::~BatchLoader() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

std::optional<Batch> BatchLoader::next() {
  if (taken_ == batch_count()) return std::nullopt;
  if (threads_.empty()) return make(taken_++);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ready_.contains(taken_) || failed_.contains(taken_); });
  if (const auto failure = failed_.find(taken_); failure != failed_.end())
    std::rethrow_exception(failure->second);
  Batch batch = std::move(ready_.extract(taken_).mapped());
  ++taken_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void BatchLoader::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return claimed_ < taken_ + options_.prefetch_batches; })) {
    if (claimed_ == batch_count() || stop.stop_requested()) return;
    const std::int64_t mine = claimed_++;
    lock.unlock();
    try {
      Batch batch = make(mine);
      lock.lock();
      ready_.emplace(mine, std::move(batch));
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      failed_.emplace(mine, std::current_exception());
    }
    changed_.notify_all();
  }
}

Batch BatchLoader::make(std::int64_t batch) const {
  const std::vector<std::int64_t>& indices = batches_[static_cast<std::size_t>(batch)];
  Batch made = source_.make_batch(
      {.indices = indices, .seed = options_.seed, .epoch = options_.epoch, .pinned = options_.pinned});
  check_batch(made, static_cast<std::int64_t>(indices.size()), source_.shape());
  return made;
}

}  // namespace ddprun::data
