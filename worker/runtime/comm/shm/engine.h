#pragma once

#include "worker/runtime/comm/shm/group.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace ddprun::runtime::shm {

/// Who runs a collective: the caller, or a thread in the background.
enum class Patience {
  kBlocking,  ///< the caller waits anyway: run here, if nothing is queued before
  kShort,     ///< the caller has other things to do: run here if all ranks come soon, else in the background
};

/// Runs collectives in the order of their submission, on the caller's thread where that is fast and cannot
/// deadlock.
///
/// A collective waits for something outside the group only at its gate: once all ranks have come, each of
/// them is being run by some thread until its end. So a caller may run a collective to its end after the
/// gate, and must not wait long before it: what it would do next may be what a peer needs in order to come.
/// After kShort's patience the collective is handed to the background thread, which also runs all that are
/// submitted behind it. Threads: any.
class Engine {
 public:
  /// Gets the outcome of a collective that ran in the background, on the background thread.
  using Done = std::function<void(const Result<void>&)>;

  explicit Engine(std::unique_ptr<Group> group);
  /// Ends pending collectives with an error.
  ~Engine();

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Runs `collective`, or queues it. Returns the outcome if it is already known. Otherwise `make_done()` was
  /// called and what it returned will get the outcome.
  template <class MakeDone>
  std::optional<Result<void>> submit(std::unique_ptr<Collective> collective, Duration timeout,
                                     Patience patience, const MakeDone& make_done) {
    const std::lock_guard lock(submit_);
    bool has_started = false;
    if (auto outcome = run_here(*collective, timeout, patience, has_started)) return outcome;
    enqueue({std::move(collective), timeout, has_started, make_done()});
    return std::nullopt;
  }

  /// Ends waits and pending collectives with an error, now and for good.
  void abort() { group_->abort(); }
  [[nodiscard]] Group& group() { return *group_; }

 private:
  struct Task {
    std::unique_ptr<Collective> collective;
    Duration timeout;
    bool has_started;
    Done done;
  };

  std::optional<Result<void>> run_here(Collective& collective, Duration timeout, Patience patience,
                                       bool& has_started);
  void enqueue(Task task);
  void run_queue();
  Result<void> run(Task& task);

  std::unique_ptr<Group> group_;
  std::mutex submit_;  ///< one submission at a time
  /// Tasks in the queue or running; while it is 0, the background thread does not touch the group.
  std::atomic<int> pending_{0};
  std::mutex mutex_;  ///< guards the two below
  std::deque<Task> queue_;
  bool is_stopping_ = false;
  std::condition_variable has_work_;
  std::thread thread_;  ///< started when first needed
};

}  // namespace ddprun::runtime::shm
