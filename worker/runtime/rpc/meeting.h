#pragma once

#include "worker/runtime/rpc/session.h"

#include <chrono>

namespace ddprun::runtime {

/// Throws Exception kPeerLost, naming who is gone, once anybody is: on the leader, who asks all, and where it has told so.
void ask_for_life(RpcSession& session);

/// Waits until all workers have come here: Python's _all_gather(None). Zero: for ever. Throws Exception kPeerLost or
/// kTimeout, naming who is gone or has not come.
void gather_all(RpcSession& session, std::chrono::milliseconds timeout);

}  // namespace ddprun::runtime
