#pragma once

#include "worker/runtime/comm/placement.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace ddprun::runtime {

/// What one rank has, and what it was told to use. No field holds a line break.
struct Offer {
  std::string host;
  std::string backend;     ///< as asked for
  std::string gpu;         ///< what tells the GPU that it would use from all others; empty: none
  std::string why_no_gpu;  ///< where there should be one; may be empty
  std::string refusal;     ///< why this rank cannot do what it was asked for; empty: it can
  bool nccl_is_built = true;
};

/// What the offers of all ranks mean for each.
struct CommonGround {
  int ranks_per_gpu = 0;      ///< the most ranks that would use one GPU; 0: nobody has one
  bool nccl_is_built = true;  ///< on every rank
};

/// Judges the offers of all ranks, in the order of ranks. Pure.
/// Errors  kConfig, in words for every rank: one cannot do what it was asked for (named), ranks that ask for
///         different backends, some with a GPU and some without.
Result<CommonGround> judge(const std::vector<Offer>& offers);

/// Every rank learns what the offers of all mean, before any group is made: ranks that chose alone would wait
/// for each other in different backends. Collective through the store: two operations per rank, and one more
/// per rank on rank 0. The same error on every rank; kTimeout, naming who did not come, after `timeout`.
Result<CommonGround> agree_on_ground(c10d::Store& store, int rank, int world_size, const Offer& mine,
                                     std::chrono::milliseconds timeout);

}  // namespace ddprun::runtime
