#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace ddprun {

using NamedTensor = std::pair<std::string, at::Tensor>;

/// What data parallelism needs to know of a model: its tensors by name. Made from a torch::nn::Module by
/// `view_of`; written by hand for a model that is something else.
struct ModuleView {
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    /// Its gradient is a sparse tensor (torch::nn::Embedding with sparse(true)).
    bool has_sparse_gradient = false;
  };
  /// Each parameter once, in the same order on every rank; also those that require no gradient.
  std::vector<Parameter> parameters;
  /// The buffers of this moment, in the same order on every rank. Asked before every forward that
  /// synchronises them.
  std::function<std::vector<NamedTensor>()> buffers;
  /// For logs.
  std::string name;
  bool has_sync_batch_norm = false;
  /// Whether a forward would make one of them ask other ranks at this moment. Empty: there is none.
  std::function<bool()> trains_sync_batch_norm{};
};

/// The parameters and buffers of a module and its children, in Python's order (own ones first, then child by
/// child), a tied parameter once, under its first name. The module must outlive the view.
ModuleView view_of(const torch::nn::Module& module);

}  // namespace ddprun
