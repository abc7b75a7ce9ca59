#pragma once

#include "worker/runtime/comm/shm/all_reduce.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace ddprun::runtime::shm {

/// All-reduces several tensors of one dtype as if they were one: sums in another order than one by one, and
/// in the one that gloo's coalesced all-reduce has.
class CoalescedAllReduce final : public Collective {
 public:
  /// `flat` holds the elements of `tensors`, which become the result, one after the other; `whole` reduces it
  /// in place.
  CoalescedAllReduce(at::Tensor flat, std::vector<at::Tensor> tensors, const AllReduce::Arguments& whole);

  [[nodiscard]] Description describe() const override { return whole_.describe(); }
  void contribute(Group& group, Post& post) override { whole_.contribute(group, post); }
  Result<void> complete(Group& group) override;

 private:
  at::Tensor flat_;
  std::vector<at::Tensor> tensors_;
  AllReduce whole_;
};

}  // namespace ddprun::runtime::shm
