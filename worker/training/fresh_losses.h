#pragma once

#include "worker/training/ranks/rank_block.h"
#include "worker/training/state/position.h"
#include <ddprun/group.h>
#include <ddprun/pt_value.h>

#include <cstdint>
#include <vector>

namespace ddprun::training {

/// What may help where a loss is no finite number: the end of a refusal.
extern const char* const kHowToGoOn;

/// The losses of the ranks of this process since they were last summed over the job, and whether anything is learned at
/// all.
class FreshLosses {
 public:
  FreshLosses(const RankBlock& block, at::Device device);

  /// Those of one step: a row of loss and items for each rank of this process, doubles [ranks, 2] on the device.
  void add(const at::Tensor& loss_and_items);
  /// By turn. Waits for the device.
  [[nodiscard]] std::vector<LossSum> by_turn() const;

  struct Sum {
    LossSum loss;            ///< over all ranks
    bool is_broken = false;  ///< some one has said so
  };
  /// The sum over the job; counting begins anew. Collective.
  /// Errors  Exception kConfig: it is no finite number, or too many steps, up to `position`, were all left out.
  Sum collect(const Group& group, const Position& position, bool is_broken);

  /// Counting begins anew, and what was counted is of no use.
  void forget();

  /// Errors  Exception kConfig, always: the last steps up to `position` were all left out.
  [[noreturn]] void refuse_barren_steps(const Position& position) const;

  /// Goes on where this process was. Errors: Exception kCorrupt.
  [[nodiscard]] PtDict state() const;
  void load(const PtDict& state);

 private:
  RankBlock block_;
  at::Tensor losses_;        ///< doubles [ranks of this process, 2]
  std::int64_t steps_ = 0;   ///< in it
  std::int64_t barren_ = 0;  ///< steps before these of which no rank counted anything
};

}  // namespace ddprun::training
