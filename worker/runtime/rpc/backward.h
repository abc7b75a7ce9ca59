#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ddprun::runtime {

/// dist_autograd::Context::backward, in the context of this id.
void run_backward(std::int64_t context, const std::vector<at::Tensor>& roots, bool retain_graph);

}  // namespace ddprun::runtime
