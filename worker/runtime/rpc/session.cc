#include "worker/runtime/rpc/session.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

namespace ddprun::runtime {
namespace {

std::mutex g_session_mutex;
std::shared_ptr<RpcSession> g_session;

}  // namespace

std::shared_ptr<RpcSession> current_rpc_session() {
  const std::lock_guard lock(g_session_mutex);
  return g_session;
}

void set_rpc_session(std::shared_ptr<RpcSession> session) {
  const std::lock_guard lock(g_session_mutex);
  g_session = std::move(session);
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
