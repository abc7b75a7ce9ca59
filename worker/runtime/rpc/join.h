#pragma once

#include "rendezvous/base/env_contract.h"
#include "worker/runtime/rpc/session.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace ddprun::runtime {

/// This process's place in the world of all ranks, and where their store is. Alone without a launcher.
struct RpcSeat {
  WorkerEnv env;
  bool is_launched = false;
};
RpcSeat rpc_seat();

/// The part of the store in which the workers find each other, over a connection of its own, because the agent waits in
/// it: a part of `known`, or where that is null, the one of ranks in Python, which all programs and generations share.
c10::intrusive_ptr<c10d::Store> rpc_store(const RpcSeat& seat, const c10::intrusive_ptr<c10d::Store>& known,
                                          std::chrono::milliseconds timeout);

/// What a world of remote calls is made from beside the agents: Python's ranks make a group over gloo, tell each other
/// their devices, and wait for each other. Returns the group. Collective.
c10::intrusive_ptr<c10d::Backend> meet_over_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const RpcSeat& seat, const std::string& name,
                                                 std::chrono::milliseconds timeout);

}  // namespace ddprun::runtime
