#pragma once

#include <ddprun/module_view.h>
#include <ddprun/optim.h>

#include <string>
#include <vector>

namespace ddprun::runtime {

/// The parameters and buffers of `module` that are equal on all ranks after a step, as divergence.h says, in
/// order: "parameter fc.weight", "buffer norm.num_batches_tracked". Those in `ignored` are left out.
/// Errors  Exception kConfig for a name in `ignored` that the module does not have.
std::vector<NamedTensor> replicated_tensors(const torch::nn::Module& module,
                                            const std::vector<std::string>& ignored);

/// The state of `optimizer`, parameter by parameter: "optimizer state exp_avg of parameter 3 (fc.bias)". That
/// of the parameters in `ignored` is left out.
std::vector<NamedTensor> replicated_tensors(const FusedOptimizer& optimizer, const torch::nn::Module& module,
                                            const std::vector<std::string>& ignored);

/// Errors  Exception kConfig for optimizers whose ranks differ by design.
void check_is_replicated(const FusedOptimizer& optimizer);

}  // namespace ddprun::runtime
