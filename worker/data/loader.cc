#include "worker/data/loader.h"

#include <algorithm>
#include <span>
#include <utility>

namespace ddprun::data {

BatchLoader::BatchLoader(const DataSource& source, std::vector<std::int64_t> indices,
                         const LoaderOptions& options)
    : source_(source),
      indices_(std::move(indices)),
      options_(options),
      batch_count_((static_cast<std::int64_t>(indices_.size()) + options.batch_size - 1) /
                   options.batch_size) {
  const auto threads = std::min<std::int64_t>(options_.threads, batch_count_);
  for (std::int64_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

BatchLoader::~BatchLoader() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

std::optional<Batch> BatchLoader::next() {
  if (taken_ == batch_count_) return std::nullopt;
  if (threads_.empty()) return make(taken_++);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || ready_.count(taken_) == 1; });
  if (failure_) std::rethrow_exception(failure_);
  Batch batch = std::move(ready_.extract(taken_).mapped());
  ++taken_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void BatchLoader::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return claimed_ < taken_ + options_.prefetch_batches; })) {
    if (claimed_ == batch_count_ || stop.stop_requested()) return;
    const std::int64_t mine = claimed_++;
    lock.unlock();
    try {
      Batch batch = make(mine);
      lock.lock();
      ready_.emplace(mine, std::move(batch));
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      failure_ = std::current_exception();
    }
    changed_.notify_all();
  }
}

Batch BatchLoader::make(std::int64_t batch) const {
  const auto first = static_cast<std::size_t>(batch * options_.batch_size);
  const std::size_t count = std::min(static_cast<std::size_t>(options_.batch_size), indices_.size() - first);
  return source_.make_batch({.indices = std::span(indices_).subspan(first, count),
                             .seed = options_.seed,
                             .epoch = options_.epoch,
                             .pinned = options_.pinned});
}

}  // namespace ddprun::data
