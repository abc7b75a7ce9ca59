#pragma once

#include "worker/runtime/comm/backend/backend_kind.h"

#include <string>
#include <string_view>

namespace ddprun::runtime {

struct PlacementRequest {
  std::string backend = "auto";  ///< "auto", "nccl", "gloo", "shm", or "cpu:gloo,cuda:nccl" and its like
  std::string device = "auto";   ///< "auto", "cpu", "cuda", "cuda:N"
};

/// What the decision rests on.
struct PlacementFacts {
  int gpu_count = 0;          ///< GPUs that this process can use
  std::string why_no_gpu;     ///< where the machine has one that it cannot use
  bool nccl_is_built = true;  ///< every rank's build has libddprun_nccl.so
  int ranks_per_gpu = 1;      ///< the most ranks of the job that use one and the same GPU
  int local_rank = 0;
  int local_world_size = 1;
  int world_size = 1;
};

struct Placement {
  BackendKind backend = BackendKind::kGloo;
  /// Another one for CPU tensors, beside `backend` for those of the GPU.
  std::optional<BackendKind> cpu_backend{};
  int gpu = -1;        ///< index of the GPU, -1 for the CPU
  std::string reason;  ///< a sentence: why this backend
  /// gloo will do where this backend cannot be had.
  bool may_fall_back = false;
};

/// What serves which tensors there. Pure.
Backends backends_at(const Placement& placement);

/// Chooses backend and device. Pure. The same request gives every rank of a job the same backend where the
/// ranks have agreed on their ground (agreement.h).
/// Errors  kConfig: an unknown word, nccl without a GPU or left out of this build, more nccl ranks than GPUs,
///         a GPU that is not there, shm across hosts or on a GPU.
Result<Placement> choose_placement(const PlacementRequest& request, const PlacementFacts& facts);

/// Index of the GPU that this rank would use, -1 for none: the one asked for, else by local rank.
/// CUDA_VISIBLE_DEVICES may have hidden others, so the same index may be another GPU on another rank. Pure.
int gpu_for(const PlacementRequest& request, const PlacementFacts& facts);

/// True where the request cannot end on a GPU, so that nobody needs to look for one.
bool wants_no_gpu(const PlacementRequest& request);

}  // namespace ddprun::runtime
