#pragma once

#include "worker/runtime/rpc/session.h"

namespace ddprun::runtime {

/// Ends this worker's part, at once but for functions that run here, which it waits for. Calls that are open fail.
/// Again, and on several threads: the first one closes, the others wait for it.
void close_rpc(RpcSession& session);

/// A process that ends closes before it destroys the statics that are there now: functions that others call use them,
/// on threads that nobody has ended.
void leave_before_statics_that_are_there();

}  // namespace ddprun::runtime
