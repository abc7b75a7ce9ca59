#pragma once

#include "tests/bench/turns.h"
#include <ddprun/init.h>

#include <ATen/core/Tensor.h>

#include <stdexcept>

namespace ddprun::bench {

/// What cannot be measured here; the message says why.
struct LeftOut : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What needs CUDA's and NCCL's own headers. A build without them has on_card_none.cc in its place, which
// throws LeftOut.

/// Takes a few steps, and records the next one in a CUDA graph: each call of the result replays it. What the
/// step reads and writes lives as long as `step`.
Step record_in_graph(Step step);

/// A call of the result sums `tensor`, floats on this rank's GPU, over all ranks with NCCL alone: without
/// c10d, on the current stream. Making it is collective.
Step make_bare_all_reduce(const Context& context, const at::Tensor& tensor);

}  // namespace ddprun::bench
