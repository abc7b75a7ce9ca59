#include "worker/runtime/rpc/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <limits>
#include <mutex>
#include <utility>

namespace ddprun::runtime {
namespace {

// Never destroyed: the agent's threads outlive main where a program does not shut down.
struct Current {
  std::atomic<pid_t>
      process;  // asked before the lock, which another thread may have held when a child was forked
  std::mutex mutex;
  std::shared_ptr<RpcSession> session;
};
Current& current() {
  static Current& only = *new Current();
  return only;
}

}  // namespace

void RpcSession::add_late(const Late& reference) {
  const std::lock_guard lock(late_mutex_);
  late_.push_back(reference);
}

std::vector<RpcSession::Late> RpcSession::late() {
  const std::lock_guard lock(late_mutex_);
  return late_;
}

std::shared_lock<std::shared_mutex> RpcSession::use() {
  std::shared_lock lock(call_mutex);
  if (is_closing)
    throw Exception(ErrorCode::kUnavailable, "rpc: this worker has shut rpc down; call nothing after that");
  return lock;
}

std::shared_ptr<RpcSession> current_rpc_session() {
  if (current().process != ::getpid()) return nullptr;
  const std::lock_guard lock(current().mutex);
  return current().session;
}

void set_rpc_session(std::shared_ptr<RpcSession> session) {
  const std::lock_guard lock(current().mutex);
  current().session = std::move(session);
  current().process = ::getpid();
}

float agent_seconds(std::chrono::milliseconds time) {
  if (time.count() > std::numeric_limits<int>::max()) return 0;
  return std::chrono::duration<float>(time).count();
}

std::shared_ptr<RpcSession> rpc_session_for(const char* what) {
  auto session = current_rpc_session();
  if (!session)
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("rpc: {} needs a worker that has joined; call init_rpc first, and nothing after shutdown",
                    what));
  return session;
}

}  // namespace ddprun::runtime
