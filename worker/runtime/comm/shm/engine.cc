#include "worker/runtime/comm/shm/engine.h"

#include <chrono>

namespace ddprun::runtime::shm {
namespace {

using namespace std::chrono_literals;

/// About what handing over to another thread and back costs.
constexpr Duration kShortPatience = 100us;

}  // namespace

Engine::Engine(std::unique_ptr<Group> group) : group_(std::move(group)) {}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  if (!thread_.joinable()) return;
  if (pending_.load(std::memory_order_acquire) > 0) group_->abort();
  has_work_.notify_one();
  thread_.join();
}

std::optional<Result<void>> Engine::run_here(Collective& collective, Duration timeout, Patience patience,
                                             bool& has_started) {
  if (pending_.load(std::memory_order_acquire) > 0) return std::nullopt;
  group_->start(collective, timeout);
  auto is_open = group_->wait_at_gate(patience == Patience::kBlocking ? Duration::max() : kShortPatience);
  if (!is_open) return Result<void>(is_open.error());
  if (*is_open) return group_->finish(collective);
  has_started = true;
  return std::nullopt;
}

void Engine::enqueue(Task task) {
  pending_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { run_queue(); });
  has_work_.notify_one();
}

void Engine::run_queue() {
  while (true) {
    std::unique_lock lock(mutex_);
    has_work_.wait(lock, [this] { return is_stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    const Result<void> outcome = run(task);
    pending_.fetch_sub(1, std::memory_order_release);
    task.done(outcome);
  }
}

Result<void> Engine::run(Task& task) {
  if (!task.has_started) group_->start(*task.collective, task.timeout);
  auto is_open = group_->wait_at_gate(Duration::max());
  if (!is_open) return is_open.error();
  return group_->finish(*task.collective);
}

}  // namespace ddprun::runtime::shm
