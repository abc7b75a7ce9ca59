#pragma once

#include "worker/training/ranks/rank_block.h"
#include "worker/training/state/saved_part.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace ddprun::training {

/// The buffers of each rank that this process trains as, by turn: those of turn 0 are the model's.
using BuffersByTurn = std::vector<std::vector<at::Tensor>>;

/// Between two steps.
void spread_first(const BuffersByTurn& buffers);

/// The buffers of all ranks, where each has its own ("rank_buffers"): running statistics, for instance. In a job of
/// more or fewer ranks all begin with rank 0's, which are the model's; in the own half it has those of turn 0 itself.
/// Between two steps. `buffers` gives those that there are now: a model from elsewhere may put others in their place.
/// `context` outlives it.
std::unique_ptr<SavedPart> buffers_part(const Context& context, const RankBlock& block,
                                        std::function<BuffersByTurn()> buffers);

}  // namespace ddprun::training
