#pragma once

#include "worker/runtime/comm/backend/backend_kind.h"
#include "worker/runtime/comm/backend/backend_request.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace ddprun::runtime {

/// Those of a group that is there.
/// Errors  kConfig: it has one that is none of ours.
Result<Backends> backends_of(c10d::ProcessGroup& group);

/// A group of `request`'s ranks. `gpu` is the index of this rank's GPU, -1 without one. Collective: over gloo and
/// shared memory no rank returns before all are connected. Throws what the backends throw; Exception kUnavailable
/// where shared memory cannot be had, kTimeout where a rank does not come.
c10::intrusive_ptr<c10d::ProcessGroup> make_group(const BackendRequest& request, const Backends& backends,
                                                  int gpu);

}  // namespace ddprun::runtime
