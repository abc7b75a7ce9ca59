// Uneven inputs (ddprun/join.h). A rank whose input ended shadows every collective that the others still
// make, with zeros, until all have ended; the protocol is that of Python's Join, so that its order of
// collectives is written down once here:
//
//   active rank, each forward                         joined rank, each round
//   1  all-reduce a one ("I am active")               the same with a zero: 0 in all = everyone joined
//   2  (throwing mode) all-reduce a zero              a one, then both sides throw
//   3  agreement on the buckets of replicas that      the same
//      meet, once; broadcast of rebuilt ones, once
//   4  buffers: agree on a rank, broadcast            the same, never a candidate
//   5  all-reduce "I will reduce in this backward"    a zero; if nobody does, the round ends here
//   6  backward: one reduction per bucket             the same on zero buckets
//   7  find_unused: all-reduce of the used map        zeros
#include "worker/runtime/ddp/broadcast_bytes.h"
#include "worker/runtime/ddp/replica_state.h"
#include <ddprun/collectives.h>

#include <fmt/format.h>
#include <torch/types.h>

namespace ddprun::runtime {

void ReplicaSync::State::tell_joined_ranks_about_sync() {
  std::vector<at::Tensor> flag = {torch::full({1}, gradient_sync ? 1.0 : 0.0, at::TensorOptions(device))};
  group.process_group()->allreduce(flag)->wait();
}

int ReplicaSync::State::agree_on_rank(bool is_candidate) const {
  const at::Tensor candidate = torch::full({1}, std::int64_t{is_candidate ? group.rank() : -1},
                                           at::TensorOptions(torch::kInt64).device(device));
  all_reduce(group, candidate, ReduceOp::kMax);
  return static_cast<int>(candidate.item<std::int64_t>());
}

bool ReplicaSync::State::synchronises_batch_norm() const {
  return view.trains_sync_batch_norm && view.trains_sync_batch_norm();
}

// Only now: a loop that ends for all with its first rank (throw_on_early_termination), or whose ranks have as many
// batches, has nothing to be shadowed.
void ReplicaSync::State::check_can_be_shadowed() const {
  const auto refuse = [](const std::string& why) {
    throw Exception(ErrorCode::kConfig, "DistributedDataParallel: " + why);
  };
  if (options.skip_all_reduce_unused_params)
    refuse("join cannot shadow buckets that are left out; leave out option skip_all_reduce_unused_params");
  if (synchronised_batch_norm.value_or(synchronises_batch_norm())) {
    refuse(
        "join cannot shadow the collectives of SyncBatchNorm layers that train; use BatchNorm, or set "
        "throw_on_early_termination");
  }
  if (options.static_graph && !has_queued_static_reduction) {
    refuse(fmt::format(
        "rank {} has no input at all in join, and static_graph learns the graph of all steps in the first; "
        "give each rank at least one batch",
        group.rank()));
  }
}

void ReplicaSync::State::shadow_one_step() {
  check_can_be_shadowed();
  agree_on_buckets();
  rebuild_buckets();
  if (will_sync_buffers()) sync_buffers(agree_on_rank(false));
  const at::Tensor reducing = torch::zeros({1}, at::TensorOptions(device));
  all_reduce(group, reducing);
  forward_sync = reducing.item<double>() != 0;
  if (!forward_sync) return;
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> reductions;
  for (c10d::GradBucket& bucket : reducer->get_grad_buckets(/*return_zero_tensors=*/true)) {
    reductions.push_back(reducer->run_comm_hook(bucket));
  }
  for (const auto& reduction : reductions) reduction->waitAndThrow();
  // With static_graph only the first step tells which are used, which this rank has made itself.
  if (options.find_unused_parameters && !options.static_graph) {
    std::vector<at::Tensor> used = {reducer->get_local_used_map_on_device()};
    used.front().zero_();
    group.process_group()->allreduce(used)->wait();
  }
  reducer->push_rebuilt_params_for_all_indices();
}

void ReplicaSync::State::take_over_last_model(bool is_last) {
  const int source = agree_on_rank(is_last);
  std::vector<at::Tensor> tensors;
  for (const auto& parameter : view.parameters) {
    if (parameter.tensor.defined() && !is_ignored(parameter.name))
      tensors.push_back(parameter.tensor.detach());
  }
  if (options.broadcast_buffers) {
    for (const auto& [name, buffer] : buffers) tensors.push_back(buffer.detach());
  }
  c10d::broadcast_coalesced(group.process_group(), tensors, kBroadcastBytes, source);
}

Group ReplicaSync::join_group() const { return state_->group; }

at::Device ReplicaSync::join_device() const { return state_->device; }

void ReplicaSync::join_begins(const JoinOptions& join_options) {
  if (state_->delayed) {
    throw Exception(ErrorCode::kConfig,
                    "DistributedDataParallel: join cannot shadow reductions that are delayed; leave out "
                    "option delay_all_reduce");
  }
  if (state_->low && !join_options.divide_by_initial_world_size) {
    throw Exception(ErrorCode::kConfig,
                    "DistributedDataParallel: option mixed_precision divides gradients by the size of the "
                    "group; leave JoinOptions::divide_by_initial_world_size on");
  }
  if (state_->has_optimizer_in_backward && !join_options.divide_by_initial_world_size) {
    throw Exception(ErrorCode::kConfig,
                    "DistributedDataParallel: the optimizer in the backward divides gradients by the size of "
                    "the group; leave JoinOptions::divide_by_initial_world_size on");
  }
  state_->synchronised_batch_norm.reset();
  state_->logger->set_uneven_input_join();
}

void ReplicaSync::shadow_step() {
  if (state_->low) state_->low->end();
  state_->shadow_one_step();
}

void ReplicaSync::all_joined(bool is_last) {
  if (state_->low) state_->low->end();
  state_->take_over_last_model(is_last);
}

}  // namespace ddprun::runtime
