#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace ddprun::runtime {

/// Work done in its order on a thread of its own, which begins with the first piece and ends, when all are done, with
/// the object.
class WorkQueue {
 public:
  /// So many pieces are there at a time, the one that is being done included.
  explicit WorkQueue(std::size_t most) : most_(most) {}
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Blocks until there is room for another piece.
  void wait_for_room();
  /// As wait_for_room(); `work` does not throw. From one thread. One that `may_be_dropped` is done unless
  /// drop_waiting() comes first.
  /// Errors  Exception kOs: the thread cannot be started; then `work` is not done.
  void add(std::function<void()> work, bool may_be_dropped = false);
  /// Of those that wait behind the one that is being done. Returns how many.
  std::size_t drop_waiting();
  /// Blocks until all are done.
  void wait();

 private:
  void start();
  void run();

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  struct Piece {
    std::function<void()> work;
    bool may_be_dropped = false;
  };
  std::deque<Piece> pieces_;  ///< the first is being done
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace ddprun::runtime
