#pragma once

#include "worker/training/ranks/rank_block.h"
#include "worker/training/state/saved_part.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace ddprun::training {

/// The buffers of each rank that this process trains as, by turn: those of turn 0 are the model's.
using BuffersByTurn = std::vector<std::vector<at::Tensor>>;

/// Between two steps.
void spread_first(const BuffersByTurn& buffers);

/// The buffers of all ranks, where each has its own ("rank_buffers"): running statistics, for instance. In a job of
/// more or fewer ranks all begin with rank 0's, which are the model's. Between two steps.
class BuffersPart final : public SavedPart {
 public:
  /// `buffers` gives those that there are now: a model from elsewhere may put others in their place.
  BuffersPart(const Context& context, const RankBlock& block, std::function<BuffersByTurn()> buffers);

  PtValue save() override;
  void load(const PtValue& value) override;
  /// Of a rank's own half the model keeps those of turn 0 itself.
  PtValue save_common() override { return {}; }
  PtValue save_own() override;
  void load_halves(const PtValue& common, const PtValue& own) override;

 private:
  const Context& context_;
  RankBlock block_;
  std::function<BuffersByTurn()> buffers_;
};

}  // namespace ddprun::training
