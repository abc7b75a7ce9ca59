#pragma once

#include "worker/training/parts/job_parts.h"
#include "worker/training/ranks/rank_block.h"
#include "worker/training/state/generators.h"
#include "worker/training/state/saved_part.h"
#include "worker/training/state/time_spent.h"
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/init.h>
#include <ddprun/trainer/model.h>
#include <ddprun/trainer/options.h>
#include <ddprun/trainer/task.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace ddprun::training {

/// How the work on a batch is shared: among the ranks of a job, or by devices within one process.
///
/// A process that trains as several ranks does so in turns: in each step begin_turn, forward and backward of that
/// rank's batches, and end_turn for one after the other, then sum_gradients.
class Strategy {
 public:
  virtual ~Strategy() = default;
  Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  /// The loss of this rank's `batch`, whose backward leaves the gradient of the whole batch in the model.
  virtual at::Tensor loss(const Batch& batch, const Task& task) = 0;

  /// While what it returns lives, gradients stay on this rank and add up.
  virtual std::shared_ptr<void> no_sync() { return nullptr; }

  /// The ranks that this process trains as.
  [[nodiscard]] virtual std::size_t turns() const { return 1; }
  /// From here on model and generators are those of that rank.
  virtual void turn_to(std::size_t /*turn*/) {}
  /// That rank's turn in a step. Collective where the turn is 0.
  virtual void begin_turn(std::size_t /*turn*/) {}
  /// Keeps the gradients that are in the model as that rank's.
  /// Errors  Exception kConfig: some parameters got none from the last backward.
  virtual void end_turn(std::size_t /*turn*/) {}
  /// Leaves the mean of what all ranks have kept in the model, which is that of turn 0 again. Collective.
  virtual void sum_gradients(TimeSpent& /*time*/) {}
  /// The buffers of the ranks whose turn it is not, between two steps.
  [[nodiscard]] virtual std::vector<at::Tensor> buffers_aside() const { return {}; }
  /// What is saved beside the model where ranks have buffers of their own; null: nothing.
  [[nodiscard]] virtual std::unique_ptr<SavedPart> buffers_part() { return nullptr; }

  /// Each rank's running statistics become rank 0's. Collective.
  virtual void sync_buffers() {}
  /// Each rank of this process gets the running statistics that the model has.
  virtual void spread_buffers() {}

  /// The buckets that gradients are summed in (DistributedDataParallel); none where there is nothing to sum.
  /// Collective.
  [[nodiscard]] virtual BucketOrder bucket_order() { return {}; }
  /// Errors  Exception kConfig: they are of other parameters
  virtual void set_bucket_order(const BucketOrder& /*order*/) {}
};

/// The options of DistributedDataParallel in /ddp.
DistributedDataParallelOptions ddp_options(const Options& ddp);

/// Errors  Exception kConfig: /strategy of `job` works in one process, and there are several ranks; or its virtual
///         ranks cannot be dealt out to so many processes
void check_strategy(const Options& job, int processes);

/// The one that /strategy of `job` names, for `model`, which is on the context's device. Collective.
///
/// generators    of the ranks of this process; outlive it
/// make_replica  another module like `model`; its values do not matter
/// Errors        Exception kConfig: data_parallel with several ranks, or with more replicas than GPUs
std::unique_ptr<Strategy> make_strategy(const Options& job, const Context& context,
                                        std::shared_ptr<Model> model, Generators& generators,
                                        std::function<std::shared_ptr<Model>()> make_replica);

}  // namespace ddprun::training
