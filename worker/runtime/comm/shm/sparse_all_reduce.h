#pragma once

#include "worker/runtime/comm/shm/collective.h"

#include <ATen/core/Tensor.h>

namespace ddprun::runtime::shm {

/// Sums sparse COO tensors: every rank gets everyone's indices and values, and adds them in the order of the
/// ranks, as gloo does. The ranks may have different numbers of non-zeros.
class SparseAllReduce final : public Collective {
 public:
  /// `tensor` is replaced by the sum, coalesced.
  explicit SparseAllReduce(const at::Tensor& tensor);

  [[nodiscard]] Description describe() const override { return what_; }
  void contribute(Group& group, Post& post) override;
  Result<void> complete(Group& group) override;

 private:
  at::Tensor tensor_;
  at::Tensor input_;  ///< tensor_, coalesced
  Description what_;
};

}  // namespace ddprun::runtime::shm
