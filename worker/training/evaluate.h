#pragma once

#include "worker/data/dataset.h"
#include "worker/data/loader.h"
#include "worker/models/model.h"
#include "worker/training/position.h"
#include <ddprun/group.h>

#include <functional>

namespace ddprun::training {

/// Sums `sum` over all ranks, exactly as far as doubles are. Collective.
LossSum sum_over_ranks(const Group& group, const LossSum& sum);

struct EvaluateOptions {
  at::Device device{at::kCPU};  ///< where the model is
  data::LoaderOptions loader;
  std::function<void()> after_batch;  ///< sign of life; may be empty
};

/// Loss and hits of `model` over `set`, each rank its shard, summed over all: the same on every rank, and the
/// same for every number of ranks up to rounding. Collective. Leaves the model in evaluation mode.
Evaluation evaluate(models::Model& model, const data::Dataset& set, const Group& group,
                    const EvaluateOptions& options);

}  // namespace ddprun::training
