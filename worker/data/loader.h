#pragma once

#include <ddprun/trainer/data_source.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace ddprun::data {

struct LoaderOptions {
  std::int64_t batch_size = 64;
  int threads = 1;           ///< 0: batches are made by the caller of `next`
  int prefetch_batches = 4;  ///< made ahead of the caller, at most
  bool pinned = false;
  std::uint64_t seed = 0;  ///< with `epoch`: what random changes of samples depend on
  std::int64_t epoch = 0;
};

/// The samples of each of some batches, in order.
using BatchList = std::vector<std::vector<std::int64_t>>;

/// A shard's batches. The last one may be smaller. Pure.
BatchList split(const std::vector<std::int64_t>& shard, std::int64_t batch_size);

/// The batches of shards that have as many, in turns: the first `per_turn` of each shard, then the next ones. Pure.
BatchList in_turns(const std::vector<BatchList>& shards, std::int64_t per_turn);

/// Batches, in their order whatever the number of threads.
///
/// Threads   `next` is called by one thread. The loader's own threads end with it, also in the middle of an
///           epoch.
/// Lifetime  `source` outlives the loader.
class BatchLoader {
 public:
  BatchLoader(const DataSource& source, BatchList batches, const LoaderOptions& options);
  /// Those of one shard.
  BatchLoader(const DataSource& source, const std::vector<std::int64_t>& indices,
              const LoaderOptions& options);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// The next batch, or nullopt after the last. Rethrows what a loader thread threw: out of memory, a damaged
  /// sample.
  std::optional<Batch> next();

  [[nodiscard]] std::int64_t batch_count() const { return static_cast<std::int64_t>(batches_.size()); }

 private:
  void work(const std::stop_token& stop);
  [[nodiscard]] Batch make(std::int64_t batch) const;

  const DataSource& source_;
  const BatchList batches_;
  const LoaderOptions options_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::int64_t taken_ = 0;    // by the caller
  std::int64_t claimed_ = 0;  // by loader threads
  std::map<std::int64_t, Batch> ready_;
  std::map<std::int64_t, std::exception_ptr> failed_;  ///< thrown when it is their turn
  std::vector<std::jthread> threads_;                  // last: they end before what they use
};

}  // namespace ddprun::data
