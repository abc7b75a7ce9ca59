#pragma once

#include <ddprun/call_forward.h>
#include <ddprun/group.h>
#include <ddprun/init.h>
#include <ddprun/join.h>
#include <ddprun/module_view.h>
#include <ddprun/visit_tensors.h>
#include <ddprun/with_placed_inputs.h>

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/default_comm_hooks.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

class FusedOptimizer;

/// What to do when a backward reaches parameters without a forward through the wrapper since the last one.
enum class BypassPolicy {
  /// An Exception that names the parameter comes out of backward(), or, where one was moved or cast after the
  /// wrapper was made, so that its gradient would go past the wrapper, out of the next forward().
  kThrow,
  kAllow,  ///< Say nothing; such gradients stay local, as in Python
};

/// Python's _MixedPrecision: a step computes in smaller dtypes. Outside of it parameters and gradients are in
/// their own, which optimizers, checkpoints and Join see. Unset: nothing is cast.
///
/// From a forward that computes gradients to the end of the backward that reduces them, the parameters that
/// are not ignored hold copies of param_dtype, and gradients are computed and accumulated in it, also under
/// no_sync; a forward without gradients casts them for itself, and one that throws leaves them as they were. It
/// brings a communication hook of its own.
///
/// Errors  Exception kConfig: a dtype or a parameter that is not floating-point, sparse gradients,
///         delay_all_reduce, and with param_dtype find_unused_parameters and gradient_as_bucket_view; from
///         join without divide_by_initial_world_size.
/// Source  torch/distributed/algorithms/ddp_comm_hooks/mixed_precision_hooks.py of torch 2.11, whose first
///         reduction (with static_graph the first two) is of memory that nobody wrote; this one's is right.
struct MixedPrecision {
  /// Of parameters and their gradients, and of forward's floating-point arguments as far as `visit_tensors`
  /// knows their types.
  std::optional<at::ScalarType> param_dtype;
  /// In which gradients are summed over the ranks. Unset: that of the gradients.
  std::optional<at::ScalarType> reduce_dtype;
  /// Of buffers (running statistics, also counts of integers), from the constructor on for good.
  std::optional<at::ScalarType> buffer_dtype;
};

/// The options of Python's DistributedDataParallel, with its defaults.
struct DistributedDataParallelOptions {
  /// Gradients are reduced in buckets of at most so many MiB. Unset: 25, and a first bucket of 1.
  std::optional<double> bucket_cap_mb;
  /// One limit after the other, for buckets in the order in which gradients become ready (before the first
  /// backward: of the parameters); the last one holds for all that follow. Goes before bucket_cap_mb.
  std::vector<double> bucket_cap_mb_list;
  /// The index of the GPU that the whole module is on: tensors in forward's arguments are moved there, on a
  /// stream of their own, as far as `visit_tensors` knows their types. Empty: they are there already. For
  /// modules on the CPU or on several GPUs it stays empty.
  std::vector<c10::DeviceIndex> device_ids;
  /// Only noted in logging_data(), as in Python: outputs stay where the module puts them. Default:
  /// device_ids.
  std::optional<c10::DeviceIndex> output_device;
  /// Rank 0's buffers (running statistics …) replace everyone's before each forward.
  bool broadcast_buffers = true;
  /// Search each graph for parameters that got no part in the outputs. Costs a traversal per step.
  bool find_unused_parameters = false;
  /// `grad()` is a view into the bucket: saves one copy of all gradients. A gradient that is reset is such a
  /// view again after the next backward.
  bool gradient_as_bucket_view = false;
  /// The same parameters are used in every step: unused ones are found once, in the first backward, which is not
  /// under no_sync, and re-used ones are allowed.
  bool static_graph = false;
  /// Verify that all ranks have the same parameters and take over rank 0's values. Off: the values have to be equal
  /// already, also of delayed parameters, which Python sends all the same; and the ranks verify shapes and dtypes
  /// and agree on buckets before the first forward that sends anything, as after update_process_group: one
  /// whose gradients will be reduced, or that takes over rank 0's buffers.
  bool init_sync = true;
  /// With find_unused_parameters: do not reduce parameters that no rank used. The unused set must be equal
  /// everywhere.
  bool skip_all_reduce_unused_params = false;
  /// Names (as `named_parameters()` and `named_buffers()` give them) that are left alone.
  std::vector<std::string> ignored;
  /// Names whose gradients are reduced in one flat buffer for each device and dtype, all at once, when the
  /// gradient of `reduce_delayed_when_ready` is computed; that one must come last in the backward. Both or
  /// neither. As in Python they are reduced in every backward, under no_sync, too.
  std::vector<std::string> delay_all_reduce;
  std::optional<std::string> reduce_delayed_when_ready;
  std::optional<MixedPrecision> mixed_precision;
  BypassPolicy on_bypassed_forward = BypassPolicy::kThrow;
};

/// The buckets that gradients are summed in: of each one the places of its parameters in `parameters()`.
using BucketOrder = std::vector<std::vector<std::size_t>>;

/// A communication hook: reduces one bucket in place of the default all-reduce and promises the averaged
/// tensor.
using CommHook = std::function<c10::intrusive_ptr<c10::ivalue::Future>(c10d::GradBucket& bucket)>;

/// The hooks that c10d itself brings: ALLREDUCE and FP16_COMPRESS.
using c10d::BuiltinCommHookType;

namespace runtime {

/// Everything of DistributedDataParallel that does not depend on the model's type.
class ReplicaSync final : public Joinable {
 public:
  ReplicaSync(ModuleView view, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
              DistributedDataParallelOptions options);
  ~ReplicaSync() override;
  ReplicaSync(const ReplicaSync&) = delete;
  ReplicaSync& operator=(const ReplicaSync&) = delete;

  void before_forward();
  /// Does forward take its arguments as place_input() makes them?
  [[nodiscard]] bool places_inputs() const;
  at::Tensor place_input(const at::Tensor& tensor);
  [[nodiscard]] bool wants_outputs() const;
  /// `outputs` are the tensors in what forward gave; some may be replaced by a pass-through of themselves.
  void after_forward(const std::vector<at::Tensor*>& outputs);
  /// In place of after_forward(), where forward threw.
  void abandon_forward();

  [[nodiscard]] bool gradient_sync() const;
  void set_gradient_sync(bool on);
  [[nodiscard]] Group join_group() const override;
  [[nodiscard]] at::Device join_device() const override;
  void join_begins(const JoinOptions& options) override;
  void shadow_step() override;
  void all_joined(bool is_last) override;
  void update_process_group(const Group& group);
  void register_comm_hook(CommHook hook);
  void register_comm_hook(std::unique_ptr<c10d::CommHookInterface> hook);
  void register_builtin_comm_hook(BuiltinCommHookType type);
  void apply_optimizer_in_backward(FusedOptimizer& optimizer);
  void check_finished();
  void sync_buffers();
  [[nodiscard]] std::vector<at::Tensor> parameters() const;
  [[nodiscard]] BucketOrder bucket_order();
  void set_bucket_order(const BucketOrder& order);
  [[nodiscard]] c10::DDPLoggingData logging_data() const;

  struct State;

 private:
  std::shared_ptr<State> state_;  ///< outputs, which may outlive this, look whether it is still there
};

}  // namespace runtime

/// Data parallelism over processes: each rank keeps a replica of the module, and backward averages the
/// gradients over all ranks, bucket by bucket, overlapping with the computation (c10d::Reducer, the engine of
/// Python's class).
///
///     ddprun::DistributedDataParallel ddp(model, context);
///     loss_of(ddp(input), target).backward();  // call ddp, not model
///
/// `model` is a module holder, a shared_ptr<Impl>, a Sequential or an AnyModule.
///
/// Order    collective: every rank constructs it with the same parameters in the same order (verified), and
///          calls forward and backward equally often. Parameters and buffers of rank 0 replace those of the
///          others.
/// Device   all parameters on one type of device; several devices of it in one replica are allowed.
/// Errors   Exception kConfig: nothing to train, mixed device types, device_ids that are not where the
///          parameters are, parameters that differ between ranks; from backward, a model that was called past
///          the wrapper; from the forward after it, by name, parameters that got no gradient, and those that
///          were moved or cast (to()) after the wrapper was made.
/// Threads  one thread calls forward; gradient hooks run on autograd's threads.
/// Source   Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020.
template <class Module>
class DistributedDataParallel {
 public:
  DistributedDataParallel(Module module, const Context& context, DistributedDataParallelOptions options = {})
      : DistributedDataParallel(std::move(module), context.process_group(), std::move(options)) {}

  DistributedDataParallel(Module module, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                          DistributedDataParallelOptions options = {})
      : module_(std::move(module)),
        sync_(std::make_unique<runtime::ReplicaSync>(view_of(runtime::module_of(module_)),
                                                     std::move(process_group), std::move(options))) {}

  /// For a callable that is no module: its tensors are told by `view`.
  DistributedDataParallel(Module callable, ModuleView view,
                          c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                          DistributedDataParallelOptions options = {})
      : module_(std::move(callable)),
        sync_(std::make_unique<runtime::ReplicaSync>(std::move(view), std::move(process_group),
                                                     std::move(options))) {}

  /// Forwards to the module and prepares the reduction of the backward that follows. The result may be a
  /// tensor or anything `visit_tensors` knows.
  template <class... Args>
  auto forward(Args&&... args) {
    ForwardGuard guard(*sync_);
    sync_->before_forward();
    auto output = call_module(std::forward<Args>(args)...);
    std::vector<at::Tensor*> tensors;
    if (sync_->wants_outputs())
      visit_tensors(output, [&](at::Tensor& tensor) { tensors.push_back(&tensor); });
    sync_->after_forward(tensors);
    guard.has_returned = true;
    return output;
  }

  template <class... Args>
  auto operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  /// While the guard lives, on every rank alike, backwards accumulate locally; the first after it reduces. The forward
  /// must be inside as well. Gradients of option delay_all_reduce are reduced all the same, in each backward.
  class NoSync {
   public:
    explicit NoSync(runtime::ReplicaSync& sync) : sync_(sync), before_(sync.gradient_sync()) {
      sync_.set_gradient_sync(false);
    }
    ~NoSync() { sync_.set_gradient_sync(before_); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    runtime::ReplicaSync& sync_;
    bool before_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*sync_); }

  /// Runs `body`, this rank's training loop, where ranks may have different numbers of steps: a rank whose
  /// body has returned shadows the collectives of the others until all are done; then all take over the last
  /// one's model. ddprun::join (join.h) with this alone; that one takes several, of which this can be one.
  void join(const std::function<void()>& body, const JoinOptions& options = {}) {
    ddprun::join({*sync_}, body, options);
  }

  operator Joinable&() { return *sync_; }  // NOLINT: for join({ddp, …})

  /// From the next forward on the gradients are averaged over `group`: the job goes on with other ranks, and
  /// this replica, its optimizer and its state as they are; a backward that failed because a rank was lost is
  /// forgotten. On a rank that is not in the group it forgets that backward only. Nothing is sent: the members
  /// are to have equal parameters, and those that are new to it are constructed on it, with `init_sync` off.
  ///
  /// Before the next forward that sends anything (gradients that will be reduced, or buffers) all of them verify that
  /// they have the same parameters(), and take the buckets of the group's rank 0, in two small collectives, three with
  /// static_graph. Unless that one has set them since (set_bucket_order), they are rebuilt after the backward that
  /// follows.
  ///
  /// Communication hooks keep the groups that they were made with. So do SyncBatchNorm layers: call
  /// convert_sync_batchnorm(model, group) as well, on each member. With the optimizer in the backward the
  /// gradients of all parameters are reset; a backward that failed may have updated some of them on some ranks:
  /// broadcast parameters and the optimizer's state anew then, from one of the members.
  /// Errors  in that forward, on all members, Exception kConfig: parameters that differ between them, and with
  ///         static_graph members that have made their first backward beside others that have not.
  /// Source  Python's _update_process_group, whose first step sums over whatever buckets each rank has.
  void update_process_group(const Group& group) { sync_->update_process_group(group); }

  /// Replaces the all-reduce of each bucket, on every rank alike; at most one, before the first backward.
  void register_comm_hook(CommHook hook) { sync_->register_comm_hook(std::move(hook)); }
  void register_comm_hook(std::unique_ptr<c10d::CommHookInterface> hook) {
    sync_->register_comm_hook(std::move(hook));
  }

  /// The same with one of c10d's own hooks, which are C++ in Python, too: `_register_builtin_comm_hook`.
  void register_builtin_comm_hook(BuiltinCommHookType type) { sync_->register_builtin_comm_hook(type); }

  /// The backward updates the parameters: as soon as a bucket is reduced, `optimizer` steps with its
  /// gradients, and they are reset. Do not call its step() and zero_grad(); schedulers and state_dict() are
  /// used as ever. Python's _apply_optimizer_in_backward, with one optimizer for all parameters (of optim.h,
  /// with groups as you like) where Python makes one for each.
  ///
  /// Before the first forward, in place of a communication hook; `optimizer` outlives this. Backward waits
  /// for each bucket's all-reduce. A parameter that no rank used is updated with a gradient of zero. Under
  /// no_sync gradients accumulate, and the backward that reduces them updates.
  /// Errors  Exception kConfig: parameters that are the optimizer's or reduced here, and not both; sparse
  ///         gradients; a ZeroRedundancyOptimizer or PostLocalSgdOptimizer; a hook is registered already; from
  ///         join without divide_by_initial_world_size.
  /// Source  torch/distributed/algorithms/ddp_comm_hooks/optimizer_overlap_hooks.py of torch 2.11
  void apply_optimizer_in_backward(FusedOptimizer& optimizer) {
    sync_->apply_optimizer_in_backward(optimizer);
  }

  /// Throws, naming them, if parameters of the last step got no gradient; so does the next forward. Not collective.
  void check_finished() { sync_->check_finished(); }

  /// Rank 0's buffers (running statistics …) replace everyone's. After a step each rank has its own again;
  /// call this before an evaluation that goes through the bare module, so that all ranks evaluate one model.
  /// Collective.
  void sync_buffers() { sync_->sync_buffers(); }

  /// The parameters whose gradients are averaged, each once, in order: what an optimizer takes. Which ones that
  /// is was settled when this was made; requires_grad that is changed later changes nothing here, as in Python.
  [[nodiscard]] std::vector<at::Tensor> parameters() const { return sync_->parameters(); }

  /// The buckets of the next step. They are made anew after the first one (with static_graph, the second), in the
  /// order in which gradients became ready, and which bucket a gradient is in decides, from three ranks on, in which
  /// order it is summed over the ranks: a program that goes on from a checkpoint ends with the same bits as one that
  /// was never interrupted if it keeps them there. Collective after the first step. After update_process_group these
  /// are this rank's until the next forward, and rank 0's count. Empty when every reduction is delayed.
  [[nodiscard]] BucketOrder bucket_order() { return sync_->bucket_order(); }

  /// Goes on with the buckets that bucket_order() gave for the same model, and makes none anew after the next
  /// backward; where it has just these, nothing changes, but after update_process_group, which would make them anew.
  /// Between two steps, the same on all ranks. Collective after the first step.
  /// Errors  Exception kConfig: they do not hold each parameter once, a bucket is empty, has parameters of
  ///         several dtypes or devices, or one with sparse gradients beside others; nothing has changed then.
  void set_bucket_order(const BucketOrder& order) { sync_->set_bucket_order(order); }

  /// What c10d knows of this replica and its last sampled steps (bucket sizes, times in nanoseconds …), under
  /// the names of Python's `_get_ddp_logging_data()`. Empty when every reduction is delayed. Not collective.
  [[nodiscard]] c10::DDPLoggingData logging_data() const { return sync_->logging_data(); }

  [[nodiscard]] Module& module() { return module_; }
  [[nodiscard]] const Module& module() const { return module_; }

 private:
  struct ForwardGuard {
    explicit ForwardGuard(runtime::ReplicaSync& given) : sync(given) {}
    ~ForwardGuard() {
      if (!has_returned) sync.abandon_forward();
    }
    ForwardGuard(const ForwardGuard&) = delete;
    ForwardGuard& operator=(const ForwardGuard&) = delete;

    runtime::ReplicaSync& sync;
    bool has_returned = false;
  };

  template <class... Args>
  auto call_module(Args&&... args) {
    const auto call = [&](auto&&... values) {
      return runtime::call_forward(module_, std::forward<decltype(values)>(values)...);
    };
    if (!sync_->places_inputs()) return call(std::forward<Args>(args)...);
    const auto place = [&](const at::Tensor& tensor) { return sync_->place_input(tensor); };
    return runtime::with_placed_inputs(place, call, std::forward<Args>(args)...);
  }

  Module module_;
  std::unique_ptr<runtime::ReplicaSync> sync_;
};

}  // namespace ddprun
