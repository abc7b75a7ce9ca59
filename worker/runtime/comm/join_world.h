#pragma once

#include "rendezvous/base/env_contract.h"
#include "worker/runtime/comm/placement.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

namespace ddprun::runtime {

/// The store of the job: a TCPStore client of the launcher's (or, under torchrun without an agent store, of
/// rank 0's, which rank 0 then serves). Keys of another generation are out of reach. Throws Exception
/// kUnavailable.
c10::intrusive_ptr<c10d::Store> connect_store(const WorkerEnv& env, std::chrono::milliseconds timeout);

/// The process group of all ranks over the chosen backend. Where shared memory cannot be had on some rank,
/// all take gloo, and `placement` says so afterwards. Collective.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                          const WorkerEnv& env, Placement& placement,
                                                          std::chrono::milliseconds timeout);

}  // namespace ddprun::runtime
