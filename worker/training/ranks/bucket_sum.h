#pragma once

#include "worker/training/ranks/rank_block.h"
#include <ddprun/group.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddprun::training {

/// The mean over all ranks of a job of the gradients of some parameters, laid out one after the other as in a bucket of
/// DistributedDataParallel: with the bits that its all-reduce over gloo or shm gives in a world of as many ranks, on
/// however many processes the ranks live.
///
/// Each process keeps a row of gradients for each of its ranks. All get a slice of all rows, sum it in one order, and
/// give it to the others: as many bytes on the wire as a ring all-reduce where each rank is a process.
class BucketSum {
 public:
  /// `parameters` are of one dtype and device.
  BucketSum(const Group& group, const RankBlock& block, std::vector<at::Tensor> parameters);

  /// Keeps the gradients in the parameters as those of the rank whose turn it is; of one that is undefined, zeros.
  void keep(std::size_t turn);

  /// The gradients in the parameters become the means of what all processes have kept: views, good until the next
  /// keep(). Collective.
  void sum();

 private:
  [[nodiscard]] at::Tensor view_of(const at::Tensor& parameter, std::int64_t first) const;

  Group group_;
  RankBlock block_;
  std::vector<at::Tensor> parameters_;
  std::int64_t whole_ = 0;         ///< elements of the parameters
  std::int64_t slice_ = 0;         ///< elements that a process sums; the last ones may lie behind the whole
  at::Tensor flat_;                ///< one rank's gradients, and then the means
  std::vector<at::Tensor> views_;  ///< of `flat_`, by parameter
  at::Tensor rows_;                ///< process × turn × slice, where the group's collectives are
};

}  // namespace ddprun::training
