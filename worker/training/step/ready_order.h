#pragma once

#include "worker/runtime/libtorch/autograd_node.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddprun::training {

/// In which order a backward computes the gradients of parameters, while it lives.
///
/// Threads  reads only between backwards.
class ReadyOrder {
 public:
  explicit ReadyOrder(const std::vector<at::Tensor>& parameters);
  ~ReadyOrder();
  ReadyOrder(const ReadyOrder&) = delete;
  ReadyOrder& operator=(const ReadyOrder&) = delete;

  /// Forgets what it has seen.
  void clear() { seen_.clear(); }
  /// Places in the parameters.
  [[nodiscard]] const std::vector<std::size_t>& seen() const { return seen_; }

 private:
  struct Hook {
    runtime::NodePtr accumulator;
    std::uintptr_t key = 0;
  };
  std::vector<Hook> hooks_;
  std::vector<std::size_t> seen_;
};

}  // namespace ddprun::training
