#pragma once

#include "worker/runtime/ddp/bucket_plan.h"
#include "worker/training/ranks/bucket_sum.h"
#include "worker/training/ranks/buffers_part.h"
#include "worker/training/step/ready_order.h"
#include "worker/training/step/strategy.h"
#include <ddprun/module_view.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace ddprun::training {

/// A replica of each of the ranks that this process trains as (/train/virtual_ranks), in one model: they share the
/// weights, which are the same after each step, and have generators and running statistics of their own, which lie
/// aside while it is another one's turn. What is trained has the bits of DistributedDataParallel with gloo or shm in
/// a world of as many ranks, on any number of processes.
class VirtualReplicas final : public Strategy {
 public:
  /// Rank 0's weights and buffers become everyone's. Collective.
  /// Errors  Exception kConfig: a model with sparse gradients, or one that differs between processes
  VirtualReplicas(const Options& job, const Context& context, std::shared_ptr<Model> model,
                  Generators& generators);

  at::Tensor loss(const Batch& batch, const Task& task) override;
  [[nodiscard]] std::size_t turns() const override { return block_.count; }
  void turn_to(std::size_t turn) override;
  void begin_turn(std::size_t turn) override;
  void end_turn(std::size_t turn) override;
  void sum_gradients(TimeSpent& time) override;
  [[nodiscard]] std::vector<at::Tensor> buffers_aside() const override;
  [[nodiscard]] std::unique_ptr<SavedPart> buffers_part() override;
  void sync_buffers() override;
  void spread_buffers() override;
  [[nodiscard]] BucketOrder bucket_order() override { return buckets_; }
  void set_bucket_order(const BucketOrder& order) override;

 private:
  void make_sums();
  /// Between two steps.
  [[nodiscard]] BuffersByTurn buffers_by_turn() const;
  /// The buckets of all steps after the first one, as rank 0's backward had it. Collective.
  void rebuild_buckets();
  /// By parameter, whether no rank has used it in this step. Collective.
  [[nodiscard]] std::vector<bool> unused_by_all() const;

  std::shared_ptr<Model> model_;
  const Context& context_;
  RankBlock block_;
  DistributedDataParallelOptions options_;
  runtime::BucketLimits limits_;
  Generators& generators_;
  std::vector<ModuleView::Parameter> trained_;
  std::vector<at::Tensor> parameters_;  ///< of `trained_`
  ReadyOrder ready_;                    ///< of the last backward
  std::vector<bool> is_used_;           ///< by parameter: in this step, by some rank of this process
  std::vector<at::Tensor> buffers_;     ///< the model's: those of the rank whose turn it is
  /// By turn, like `buffers_`; those of the present one are stale.
  std::vector<std::vector<at::Tensor>> aside_;
  std::size_t turn_ = 0;
  BucketOrder buckets_;
  std::vector<BucketSum> sums_;  ///< by bucket
  bool are_buckets_final_ = false;
};

}  // namespace ddprun::training
