#include "worker/runtime/checkpoint/work_queue.h"

#include "rendezvous/base/quiet_thread.h"
#include <ddprun/exception.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

namespace ddprun::runtime {

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void WorkQueue::wait_for_room() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return pieces_.size() < most_; });
}

void WorkQueue::start() {
  if (thread_.joinable()) return;
  const int error = start_quietly(thread_, [this] { run(); });
  if (error == 0) return;
  throw Exception(
      ErrorCode::kOs,
      fmt::format("cannot start a thread: {}; is there a limit on threads or memory (ulimit -u, ulimit -v, a "
                  "container's)?",
                  std::generic_category().message(error)));
}

void WorkQueue::add(std::function<void()> work, bool may_be_dropped) {
  start();  // before the piece is there: wait() would wait for ever for one that nobody does
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return pieces_.size() < most_; });
    pieces_.push_back({std::move(work), may_be_dropped});
  }
  changed_.notify_all();
}

std::size_t WorkQueue::drop_waiting() {
  std::deque<Piece> dropped;  // ends after the lock
  {
    const std::lock_guard lock(mutex_);
    if (pieces_.size() < 2) return 0;
    const auto kept = std::stable_partition(pieces_.begin() + 1, pieces_.end(),
                                            [](const Piece& piece) { return !piece.may_be_dropped; });
    std::move(kept, pieces_.end(), std::back_inserter(dropped));
    pieces_.erase(kept, pieces_.end());
  }
  changed_.notify_all();
  return dropped.size();
}

void WorkQueue::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return pieces_.empty(); });
}

void WorkQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_over_ || !pieces_.empty(); });
    if (pieces_.empty()) return;
    const std::function<void()> work = std::move(pieces_.front().work);
    lock.unlock();
    work();
    lock.lock();
    pieces_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace ddprun::runtime
