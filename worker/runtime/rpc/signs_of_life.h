#pragma once

#include "worker/runtime/rpc/session.h"

#include <chrono>
#include <map>
#include <set>
#include <string>

namespace ddprun::runtime {

/// What the agent says of the connections to those of `names` that are gone, by name. A worker answers once it has a
/// thread for it, and counts as alive where it does not within `timeout`; all are asked at once.
std::map<std::string, std::string> lost_connections(
    const RpcSession& session, const std::set<std::string>& names,
    std::chrono::milliseconds timeout = std::chrono::seconds(2));

}  // namespace ddprun::runtime
