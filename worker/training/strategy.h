#pragma once

#include "worker/training/job_parts.h"
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/init.h>
#include <ddprun/trainer/model.h>
#include <ddprun/trainer/options.h>
#include <ddprun/trainer/task.h>

#include <functional>
#include <memory>

namespace ddprun::training {

/// How the work on a batch is shared: among the ranks of a job, or by devices within one process.
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

  /// Each rank's running statistics become rank 0's. Collective.
  virtual void sync_buffers() {}

  /// The buckets that gradients are summed in (DistributedDataParallel); none where there is nothing to sum.
  /// Collective.
  [[nodiscard]] virtual BucketOrder bucket_order() { return {}; }
  /// Errors  Exception kConfig: they are of other parameters
  virtual void set_bucket_order(const BucketOrder& /*order*/) {}
};

/// Errors  Exception kConfig: /strategy of `job` works in one process, and there are several ranks
void check_strategy(const Options& job, int ranks);

/// The one that /strategy of `job` names, for `model`, which is on the context's device. Collective.
///
/// make_replica  another module like `model`; its values do not matter
/// Errors        Exception kConfig: data_parallel with several ranks, or with more replicas than GPUs
std::unique_ptr<Strategy> make_strategy(const Options& job, const Context& context,
                                        std::shared_ptr<Model> model,
                                        std::function<std::shared_ptr<Model>()> make_replica);

}  // namespace ddprun::training
