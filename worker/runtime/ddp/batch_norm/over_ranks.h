#pragma once

#include <ddprun/group.h>

#include <ATen/core/Tensor.h>

#include <optional>

namespace ddprun::runtime {

/// What one call of a batch norm in training works with, beside its input. An undefined tensor is left out.
struct BatchNormOfRanks {
  at::Tensor weight, bias;               ///< [C]
  at::Tensor running_mean, running_var;  ///< [C], updated in place
  double momentum = 0;                   ///< of the running statistics
  double eps = 0;
};

struct Normalized {
  at::Tensor output;
  bool has_samples = false;  ///< false: no rank had any, and the running statistics are as they were
};

/// As an autograd::Function takes a tensor that is left out.
inline std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

/// Normalizes an input [N, C, …] over the batch of all ranks of the group; N may differ between them, and be 0, also
/// on all of them.
/// Differentiable in input, weight and bias; the gradients of these two stay local.
/// Collective: gathers 2C+1 numbers per rank, and reduces 2C in the backward.
///
/// By the kernels that torch.nn.SyncBatchNorm uses, in its order (torch/nn/modules/_functions.py), so that the
/// result is Python's to the last bit. ATen has them for GPUs; double, or anything else with float statistics.
Normalized normalize_by_kernels(const at::Tensor& input, const BatchNormOfRanks& norm, const Group& group);

/// Whether ATen has these kernels for the device of `input`.
bool has_batch_norm_kernels(const at::Tensor& input);

/// By the formula, on any device: Python has nothing for the CPU.
Normalized normalize_by_formula(const at::Tensor& input, const BatchNormOfRanks& norm, const Group& group);

}  // namespace ddprun::runtime
