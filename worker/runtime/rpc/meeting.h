#pragma once

#include "worker/runtime/rpc/session.h"

#include <chrono>

namespace ddprun::runtime {

/// This worker leaves because another is late: whoever finds it gone after that does not take it for one that was lost.
void say_given_up(RpcSession& session);

/// Throws Exception kPeerLost, naming who is gone, once anybody is: on the leader, who asks all, and where it has
/// told so.
void ask_for_life(RpcSession& session);

/// Waits until all workers have come here: Python's _all_gather(None). Zero: for ever. Throws Exception kPeerLost or
/// kTimeout, naming who is gone or has not come.
void gather_all(RpcSession& session, std::chrono::milliseconds timeout);

}  // namespace ddprun::runtime
