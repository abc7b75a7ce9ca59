#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace ddprun::runtime {

/// Passes `outputs` through an autograd node of their own, so that (a) those left out of the loss reach the
/// model's graph with undefined gradients, which the reducer then treats as unused, and (b) `on_backward`
/// runs when backward begins. The results are copies, which may be changed in place. Tensors outside any
/// graph are returned as they are.
std::vector<at::Tensor> pass_through_sink(const std::vector<at::Tensor>& outputs,
                                          std::function<void()> on_backward);

}  // namespace ddprun::runtime
