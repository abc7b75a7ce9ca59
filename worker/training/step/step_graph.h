#pragma once

#include "worker/runtime/comm/gpu/recording.h"
#include "worker/training/step/graph_plan.h"
#include <ddprun/optim.h>
#include <ddprun/trainer/batch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace ddprun::training {

/// Forward and backward of a step as one recorded graph: the host starts one thing in place of hundreds. What follows
/// them stays outside, because it depends on numbers of the host that change: clipping, the optimizer at its learning
/// rate, the average.
class StepGraph {
 public:
  /// From a batch on the device to its loss, with the gradients in the parameters. Apart from these it may change only
  /// what lies on the device, always in the same memory.
  using Learn = std::function<at::Tensor(const Batch&)>;

  /// `optimizer` outlives this; warm_up_steps as in GraphPlan.
  StepGraph(runtime::Recorder record, std::int64_t warm_up_steps, FusedOptimizer& optimizer);

  /// Computes a step's loss and gradients, in the way that is its turn. The loss is good until the next call.
  /// Errors  Exception kConfig: `learn` does what cannot be recorded; what `learn` throws of its own.
  at::Tensor run(const Batch& batch, const Learn& learn);

  [[nodiscard]] bool is_recorded() const { return recording_ != nullptr; }

 private:
  at::Tensor compute(const Batch& batch, const Learn& learn);
  void record(const Batch& batch, const Learn& learn);
  at::Tensor replay(const Batch& batch);

  runtime::Recorder record_;
  GraphPlan plan_;
  FusedOptimizer& optimizer_;
  // The memory that the graph reads and writes.
  Batch input_;
  at::Tensor loss_;
  std::vector<at::Tensor> gradients_;  ///< by parameter
  std::unique_ptr<runtime::Recording> recording_;
};

}  // namespace ddprun::training
