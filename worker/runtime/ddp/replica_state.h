#pragma once

#include "worker/runtime/ddp/bypass_watch.h"
#include "worker/runtime/ddp/delayed_reduction.h"
#include "worker/runtime/ddp/input_placement.h"
#include "worker/runtime/ddp/low_precision.h"
#include <ddprun/distributed_data_parallel.h>

#include <torch/csrc/distributed/c10d/logger.hpp>

#include <optional>

namespace c10d {
class Reducer;
}

namespace ddprun::runtime {

struct ReplicaSync::State {
  ModuleView view;
  Group group;
  DistributedDataParallelOptions options;
  std::vector<ModuleView::Parameter> reduced;   ///< those whose gradients the reducer averages
  std::vector<ModuleView::Parameter> averaged;  ///< these, and those whose reduction is delayed, as in `view`
  std::vector<NamedTensor> buffers;             ///< as they were at the last synchronisation
  at::Device device{at::kCPU};
  std::optional<InputPlacement> inputs;  ///< unset when they are where they belong
  std::unique_ptr<DelayedReduction> delayed;
  std::unique_ptr<BypassWatch> watch;      ///< null when bypassing is allowed
  std::unique_ptr<LowPrecision> low;       ///< null without option mixed_precision
  std::shared_ptr<c10d::Reducer> reducer;  ///< null when every reduction is delayed
  std::shared_ptr<c10d::Logger> logger;    ///< null when the reducer is
  bool gradient_sync = true;
  /// False after a step that reduced nothing: buffers cannot have diverged in a way that matters yet.
  bool forward_sync = true;
  bool has_queued_static_reduction = false;
  /// The other replicas of the group may have had other steps, and other buckets, than this one.
  bool must_agree_on_buckets = false;
  bool has_changed_group = false;  ///< and has not agreed since: the buckets are those of another group
  /// Whether the last forward with gradients in this join had SyncBatchNorm layers ask other ranks: its loop may leave
  /// them in another mode than others still train them in. Unset before the first.
  std::optional<bool> synchronised_batch_norm;
  bool has_comm_hook = false;
  bool has_optimizer_in_backward = false;

  [[nodiscard]] bool is_ignored(const std::string& name) const;
  [[nodiscard]] bool will_sync_buffers() const;
  void sync_buffers(int from_rank);
  /// Notes that a hook of that name is registered; throws if there cannot be one.
  void claim_hook(const std::string& name);
  /// And sets up what option mixed_precision asks for.
  void make_logged_reducer();
  /// Before every forward that computes gradients, as Python does: throws if the last reduction is unfinished, since
  /// this rank's gradients would be its own from here on; rebuilds the buckets when that is due. Collective in that
  /// one step.
  void rebuild_buckets();
  /// Runs something of the reducer and names the parameters in its complaint about missing gradients.
  template <class Function>
  auto guarded(Function&& function);
  [[noreturn]] void complain_about_missing_gradients(const std::vector<std::string>& names) const;

  // in bucket_order.cc
  /// Before the first forward that sends anything, its gradients or buffers, after replicas of different pasts may have
  /// met (in join, before the first with gradients, which the joined ranks shadow): all take rank 0's buckets, and keep
  /// them or not as it does. Throws on all ranks where they cannot train together. Collective in that one step.
  void agree_on_buckets();
  void take_buckets_of_rank0();
  void use_buckets(const BucketOrder& order);

  // join(), in join.cc
  void tell_joined_ranks_about_sync();
  [[nodiscard]] int agree_on_rank(bool is_candidate) const;
  [[nodiscard]] bool synchronises_batch_norm() const;
  void check_can_be_shadowed() const;
  void shadow_one_step();
  void take_over_last_model(bool is_last);
};

}  // namespace ddprun::runtime
