#pragma once

#include "worker/runtime/process_group/backend_request.h"
#include "worker/runtime/process_group/placement.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <optional>
#include <string>

namespace ddprun::runtime {

/// Which backend serves which tensors of a group.
struct Backends {
  std::optional<BackendKind> cpu;
  std::optional<BackendKind> gpu;

  friend bool operator==(const Backends&, const Backends&) = default;
};

/// What `kind` alone serves for a rank with or without a GPU. Pure.
Backends served_by(BackendKind kind, bool has_gpu);

/// "gloo", "nccl" or "shm" for a rank with or without a GPU. Pure. Errors  kConfig, naming the words there
/// are.
Result<Backends> parse_backends(const std::string& text, bool has_gpu);

/// "gloo", or "cpu:gloo,cuda:nccl" where two serve a group.
std::string to_string(const Backends& backends);

/// Those of a group that is there. Errors  kConfig: it has one that is none of ours.
Result<Backends> backends_of(c10d::ProcessGroup& group);

/// A group of `request`'s ranks. `gpu` is the index of this rank's GPU, -1 without one. Collective. Throws
/// what the backends throw; Exception kUnavailable where shared memory cannot be had.
c10::intrusive_ptr<c10d::ProcessGroup> make_group(const BackendRequest& request, const Backends& backends,
                                                  int gpu);

}  // namespace ddprun::runtime
