#pragma once

#include <ddprun/distributed_data_parallel.h>
#include <ddprun/group.h>
#include <ddprun/pt_value.h>

#include <cstdint>
#include <memory>

/// Communication hooks for `DistributedDataParallel::register_comm_hook`: Python's, with its arithmetic and
/// defaults. A hook is called on every rank for the same buckets in the same order, on a thread of
/// autograd's. The bucket is one flat tensor of gradients of one dtype and device, not yet divided by the
/// world size: each of these divides, but for noop_hook. The future holds a tensor of the same shape and,
/// but for the wrappers, dtype; what a hook throws comes out of backward.
/// Source  torch/distributed/algorithms/ddp_comm_hooks/ of torch 2.11.
namespace ddprun {

/// What happens without a hook: a place to start from for one's own.
CommHook allreduce_hook(const Group& group);

/// Sends nothing: each rank goes on with its own gradients, undivided. To see what communication costs, not
/// to train.
CommHook noop_hook();

/// Reduces in float16 or bfloat16: half the bytes, less precision. Gradients keep their dtype.
CommHook fp16_compress_hook(const Group& group);
CommHook bf16_compress_hook(const Group& group);

/// Let `hook` reduce the bucket in float16 or bfloat16: it gets the bucket with a buffer of that dtype, and
/// so does what it keeps between steps. The future holds a tensor of that dtype; gradients keep theirs.
///
///     ddp.register_comm_hook(fp16_compress_wrapper(power_sgd_hook({context, {.start_step = 10}})));
CommHook fp16_compress_wrapper(CommHook hook);
CommHook bf16_compress_wrapper(CommHook hook);

struct PowerSgdOptions {
  std::int64_t matrix_approximation_rank = 1;
  /// Steps of plain all-reduce before compression begins; more than 1 with error feedback or warm start,
  /// because DDP rebuilds its buckets after the first step.
  std::int64_t start_step = 1000;
  /// A matrix is compressed if that makes it at least so many times smaller.
  double min_compression_rate = 2;
  bool use_error_feedback = true;
  bool warm_start = true;
  /// Added to column norms; a small number prevents division by zero where gradients vanish.
  double orthogonalization_epsilon = 0;
  std::uint32_t seed = 0;
};

/// What a PowerSGD hook keeps from step to step, and the ranks it reduces over. A cheap handle: the hook and
/// its copies share one state, so that a program that keeps one can save it, load it and move it between two
/// steps. Each hook wants a state of its own.
///
/// Errors  Exception kConfig for a start_step that is too small, and for an approximation rank below 1.
class PowerSgdState {
 public:
  PowerSgdState(Group group, const PowerSgdOptions& options = {});

  /// Goes on over other ranks, as update_process_group does: all members with the same state but "error_dict"
  /// (a rank that is new to it loads a member's).
  void set_group(const Group& group);

  struct Data;
  [[nodiscard]] Data& data() const { return *data_; }

 private:
  std::shared_ptr<Data> data_;
};

/// "iter" and "rng", and by the bucket's index "error_dict", "p_memory_dict" and "q_memory_dict". The
/// errors are this rank's own: a program that goes on from a checkpoint ends with the bits of one that was
/// never interrupted if each rank saves and loads its own, and DDP begins with the buckets of then
/// (DistributedDataParallel::bucket_order). Tensors are shared.
PtDict state_dict(const PowerSgdState& state);
/// Copies what state_dict gave, on any device.
/// Errors  Exception kCorrupt for what is missing or of another kind; nothing has changed then. One that does
///         not fit the model's buckets comes out of the next backward that compresses, as kConfig.
void load_state_dict(PowerSgdState& state, const PtDict& saved);

/// Low-rank compression of gradient matrices.
/// Source  Vogels et al., "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization",
///         2019.
CommHook power_sgd_hook(PowerSgdState state);

/// The same on all gradients of a bucket at once, seen as one square matrix: faster, less accurate.
/// min_compression_rate is not asked. Tensors that are no multiple of a square are padded with zeros, and the
/// rank is at most the square's side.
CommHook batched_power_sgd_hook(PowerSgdState state);

/// Sends each gradient as one of 256 steps between the least and the greatest of its bucket, or of each
/// `channel_size` gradients in it, by all-gathers: a quarter of the bytes for two ranks, as many as without
/// for eight. Computes in float32, and waits for its collectives before the backward goes on.
/// Errors  Exception kConfig for a channel_size below 1.
CommHook quantization_per_tensor_hook(const Group& group);
CommHook quantization_per_channel_hook(const Group& group, std::int64_t channel_size = 512);

struct PostLocalSgdOptions {
  /// Steps of all-reduce over the whole group; afterwards gradients are averaged over the subgroup only.
  std::int64_t start_step = 1000;
  /// False: afterwards gradients stay local.
  bool reduce_over_subgroup = true;
};

/// The steps that a post_local_sgd_hook has counted, and the ranks it reduces over: a handle, as PowerSgdState.
/// `subgroup` may be `group` itself in a job on one host.
class PostLocalSgdState {
 public:
  PostLocalSgdState(Group group, Group subgroup, const PostLocalSgdOptions& options = {});

  /// How many steps were reduced over the whole group: counts to start_step, and to be saved with the rest.
  [[nodiscard]] std::int64_t step() const;
  void set_step(std::int64_t step);
  void set_groups(const Group& group, const Group& subgroup);

  struct Data;
  [[nodiscard]] Data& data() const { return *data_; }

 private:
  std::shared_ptr<Data> data_;
};

/// Post-local SGD: to be used with a ModelAverager (model_averager.h), which averages parameters over the
/// whole group.
/// Source  Lin et al., "Don't Use Large Mini-Batches, Use Local SGD", 2018.
CommHook post_local_sgd_hook(PostLocalSgdState state);

}  // namespace ddprun
