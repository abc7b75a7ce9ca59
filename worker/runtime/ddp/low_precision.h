#pragma once

#include "worker/runtime/ddp/bypass_watch.h"
#include "worker/runtime/libtorch/autograd_node.h"
#include <ddprun/distributed_data_parallel.h>

#include <optional>
#include <unordered_map>
#include <vector>

namespace c10d {
class Reducer;
}

namespace ddprun::runtime {

/// Throws Exception kConfig where the model or the other options do not go with option mixed_precision.
void check_mixed_precision(const ModuleView& view, const DistributedDataParallelOptions& options);

/// In place, of integers, too: as torch 2.11 does.
void cast_buffers(const std::vector<NamedTensor>& buffers, at::ScalarType dtype);

/// Parameters that are in a smaller dtype while a step computes: what option mixed_precision does to a
/// replica. The arithmetic is that of torch 2.11's distributed.py and mixed_precision_hooks.py.
///
/// A parameter that changes its dtype gets another node that accumulates its gradient: the reducer's hooks,
/// and those of the BypassWatch, have to be put on that one.
/// Threads  one calls these functions; reduce() is called on autograd's, under the reducer's lock.
class LowPrecision {
 public:
  /// `reduced`: the reducer's, in its order; `frozen`: those that require no gradient.
  LowPrecision(const MixedPrecision& dtypes, const std::vector<ModuleView::Parameter>& reduced,
               const std::vector<ModuleView::Parameter>& frozen);
  ~LowPrecision() { end(); }
  LowPrecision(const LowPrecision&) = delete;
  LowPrecision& operator=(const LowPrecision&) = delete;

  /// Gives parameters their smaller dtype. A reducer is to be made after this, and connected, before end():
  /// its buckets are of that dtype then, and stay so when it makes new ones.
  void lower();
  /// `watch` may be null.
  void connect(c10d::Reducer& reducer, BypassWatch* watch);
  /// All parameters are as they were.
  void end();
  /// The parameter as it was and will be, also while it is in the smaller dtype.
  [[nodiscard]] at::Tensor in_own_dtype(const at::Tensor& parameter) const;

  [[nodiscard]] at::Tensor cast_input(const at::Tensor& tensor) const;
  void before_forward();
  void after_forward();
  /// In place of after_forward(), where forward threw: it awaits no backward, but one before it may.
  void abandon_forward();

  /// The communication hook: sums a bucket in reduce_dtype, divides by `world_size`, and gives its parameters
  /// and their gradients their own dtype again; the rest follows at the end of the backward.
  c10::intrusive_ptr<c10::ivalue::Future> reduce(c10d::GradBucket& bucket, int world_size);

 private:
  struct Cast {
    at::Tensor parameter;
    std::optional<std::size_t> index;  ///< the reducer's
    at::Tensor full{};                 ///< defined while the parameter is in the smaller dtype
    NodePtr accumulator{};             ///< null when it has no hook
    std::uintptr_t hook = 0;
    bool has_new_data = false;  ///< since the watch has followed
  };
  void lower(Cast& cast);
  static void restore(Cast& cast);
  void notify_reducer(Cast& cast);
  static void unhook(Cast& cast);
  void let_watch_follow();
  /// What comes with every end of a forward.
  void settle();
  void restore(const std::vector<at::Tensor>& parameters);

  MixedPrecision dtypes_;
  std::vector<Cast> casts_;
  std::unordered_map<const c10::TensorImpl*, Cast*> cast_of_;
  c10d::Reducer* reducer_ = nullptr;
  BypassWatch* watch_ = nullptr;
  bool awaits_backward_ = false;
  bool awaited_backward_before_ = false;  ///< the last forward
  bool has_queued_end_ = false;
};

}  // namespace ddprun::runtime
