#pragma once

#include "worker/runtime/rpc/session.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::runtime {

/// What the agent says of a connection to worker `name` that is gone. Nothing where the worker answers, as any does once
/// it has a thread for it, or where neither comes within `timeout`.
std::optional<std::string> lost_connection_to(const RpcSession& session, const std::string& name,
                                              std::chrono::milliseconds timeout);

/// The other workers of whom that is true, after `timeout` at most.
std::vector<std::string> workers_gone(const RpcSession& session, std::chrono::milliseconds timeout);

}  // namespace ddprun::runtime
