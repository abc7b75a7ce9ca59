#pragma once

#include "worker/data/loader.h"
#include "worker/training/batches/copy_lane.h"
#include "worker/training/ranks/rank_block.h"
#include "worker/training/state/position.h"
#include <ddprun/group.h>
#include <ddprun/trainer/model.h>
#include <ddprun/trainer/task.h>

#include <c10/core/Device.h>

#include <functional>
#include <optional>

namespace ddprun::training {

/// Sums `sum` over all ranks, exactly as far as doubles are. Collective.
LossSum sum_over_ranks(const Group& group, const LossSum& sum);

struct EvaluateOptions {
  at::Device device{at::kCPU};  ///< where the model is
  data::LoaderOptions loader;
  std::optional<c10::ScalarType> autocast;
  std::function<void()> after_batch;  ///< sign of life; may be empty
  std::optional<RankBlock> block{};   ///< whose shards this process takes; unset: of its rank in the group
  /// From here on model and generators are those of that rank of the block; may be empty.
  std::function<void(std::size_t turn)> turn_to;
};

/// The metrics of `task` for `model` over `source`, each rank its shard, summed over all: the same on every rank, and
/// the same for every number of ranks up to rounding; for virtual ranks, however many processes they live on, to the
/// last bit. Collective. Leaves the model in evaluation mode.
Evaluation evaluate(Model& model, const Task& task, const DataSource& source, const Group& group,
                    const EvaluateOptions& options);

}  // namespace ddprun::training
