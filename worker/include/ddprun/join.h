#pragma once

#include <ddprun/group.h>

#include <ATen/core/Tensor.h>

#include <functional>
#include <initializer_list>
#include <memory>

/// Uneven inputs: ranks may make different numbers of steps. A rank whose loop has ended shadows the
/// collectives that the others still make, until all loops have.
///
///     auto optimizer = ddprun::zero_redundancy_optimizer<ddprun::FusedSgd>(
///         context, ddp.parameters(), ddprun::FusedSgdOptions{.lr = 0.1});
///     ddprun::join({ddp, *optimizer}, [&] {
///       for (const auto& batch : batches_of_this_rank) {
///         loss_of(ddp(batch)).backward();
///         optimizer->step();
///         optimizer->zero_grad();
///       }
///     });
///
/// Source  torch/distributed/algorithms/join.py of torch 2.11
namespace ddprun {

struct JoinOptions {
  /// Divide gradients by the world size the job began with; otherwise by the number of ranks that still have
  /// input. For a DistributedDataParallel that is the first of the joinables.
  bool divide_by_initial_world_size = true;
  bool enable = true;
  /// The first rank without input ends the loop on every rank with an Exception.
  bool throw_on_early_termination = false;
};

/// What join() can shadow: something that makes the same collectives in each step. Derive from it to let
/// one's own take part: call notify_join() before the first collective of every step, and make the others' in
/// shadow_step().
class Joinable {
 public:
  virtual ~Joinable() = default;

  [[nodiscard]] virtual Group join_group() const = 0;
  [[nodiscard]] virtual at::Device join_device() const = 0;
  /// join() is about to run the loop. May throw.
  virtual void join_begins(const JoinOptions& /*options*/) {}
  /// The collectives of one step of ranks that still have input.
  virtual void shadow_step() = 0;
  /// No rank has input any more. `is_last`: this one is among those that had it longest.
  virtual void all_joined(bool /*is_last*/) {}

 protected:
  /// Tells ranks without input that this one makes another step: an all-reduce, if this is the first joinable
  /// of a join(); its work then, otherwise null. Throws Exception kConfig where a rank without input is to
  /// end the loop.
  c10::intrusive_ptr<c10d::Work> notify_join();
  /// Null outside of join().
  [[nodiscard]] const JoinOptions* join_options() const { return options_.get(); }

 private:
  friend class JoinScope;
  std::unique_ptr<const JoinOptions> options_;
  bool is_first_ = false;
};

/// Runs `body`, this rank's training loop, and shadows the other ranks' steps of each joinable, in this
/// order, until all loops have ended. The first one tells the ranks of each other, so it takes part in every
/// step.
///
/// With a ZeroRedundancyOptimizer, name the DistributedDataParallel before it, and step once for each forward of the
/// first joinable, which a rank without input takes for a step: no accumulation over several forwards. As in Python, a
/// rank without input updates its share of the parameters with the gradients that it was left with (none after
/// zero_grad()), and the last rank's parameters are everyone's at the end.
///
/// Parameters and buffers alone are: the state of an optimizer that is no joinable (momentum, counts of steps), the
/// scale of a GradScaler and the place of a scheduler stay, on ranks that ended early, where their own loop left them.
/// Before training goes on, broadcast them from a rank that had input longest, or begin with new ones.
///
/// A DistributedDataParallel's forward without gradients (a validation within the loop) takes part in nothing: the
/// buffers are this rank's own. It refuses (kConfig) delay_all_reduce, and, where something would have to be shadowed,
/// skip_all_reduce_unused_params, SyncBatchNorm layers that trained over several ranks in this rank's last step, and
/// static_graph on a rank without any input.
///
/// Order   collective: on all ranks of the joinables' group, with the same joinables and options.
/// Errors  Exception kConfig: no joinables, or of different groups; on all ranks, when one ran out of input
///         and throw_on_early_termination is set. What `body` throws passes through; other ranks then wait
///         for this one.
void join(std::initializer_list<std::reference_wrapper<Joinable>> joinables,
          const std::function<void()>& body, const JoinOptions& options = {});

}  // namespace ddprun
