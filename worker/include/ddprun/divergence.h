#pragma once

#include <ddprun/exception.h>
#include <ddprun/group.h>
#include <ddprun/module_view.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

class FusedOptimizer;

/// 128 bits of a tensor: of its dtype, its shape, and the bits of its elements in logical order.
struct TensorHash {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  bool operator==(const TensorHash&) const = default;
};

/// The hash of `tensor`. Bits are compared, not numbers: 0 and −0 differ, and so do two NaNs of other
/// payloads. Strides do not matter. A change of one or two 32-bit words within 1 KiB changes it for certain,
/// any other but for one in 2^60; it is no defence against somebody who means to deceive it. (at::hash_tensor
/// is the XOR of all elements, which does not see when two of them change places.)
///
/// Device   any. On the CPU a loop over the bytes, on as many threads as ATen has; elsewhere operations of
///          ATen's on the tensor's own device, in 200 MiB of its memory at most, and a copy of 16 bytes to the
///          host, for which it waits. Both give the same hash. A tensor that is not contiguous is copied
///          first.
/// Errors   Exception kConfig for sparse and quantized tensors.
/// Source   Lemire and Kaser, "Strongly Universal String Hashing is Fast", The Computer Journal 2014: 256
///          words at a time are multiplied by random numbers and summed, twice; the mixing of the sums is
///          MurmurHash3's.
[[nodiscard]] TensorHash content_hash(const at::Tensor& tensor);

/// Where the replicas of a group have diverged.
struct Divergence {
  std::int64_t step = 0;
  std::string tensor;  ///< the first that differs: "parameter fc.weight (Float [10, 128])"
  /// That differ from the majority, or, where there is none, from the largest party with the lowest rank; by
  /// their ranks in the world.
  std::vector<int> ranks;
  bool is_mine = false;  ///< this rank is one of them
};

/// What DivergenceCheck throws, on every rank with the same words. code() is kInternal on the ranks that
/// differ and kPeerLost on the others: so a program under record() that does not catch it ends there with 70,
/// here with 75, and the launcher names a rank that differs as the cause.
class DivergenceError final : public Exception {
 public:
  DivergenceError(Divergence divergence, const std::string& message)
      : Exception(divergence.is_mine ? ErrorCode::kInternal : ErrorCode::kPeerLost, message),
        divergence_(std::move(divergence)) {}

  [[nodiscard]] const Divergence& divergence() const { return divergence_; }

 private:
  Divergence divergence_;
};

struct DivergenceCheckOptions {
  /// after_step() compares at every so many steps.
  std::int64_t every_steps = 100;
  /// Parameters and buffers, by the module's names, that may differ between ranks: those that
  /// DistributedDataParallel ignores, too, and buffers that a forward of your own changes by this rank's
  /// batch.
  std::vector<std::string> ignored{};
};

/// A guard against silent corruption. Replicas of a model begin equal, get equal gradients and so stay equal,
/// bit by bit; one that has come apart (broken memory or hardware, a kernel that is not deterministic, code
/// that runs on some ranks only) trains on without an error, and spoils the others through its gradients.
/// This compares a hash of what is to be equal, and names the rank and the tensor.
///
///     ddprun::DivergenceCheck check(context, *model, optimizer, {.every_steps = 100});
///     …
///     optimizer.step();
///     check.after_step(step);
///
/// Compared, in this order: all parameters; the buffers, but for running_mean and running_var of torch's
/// BatchNorm and InstanceNorm: each rank's batch moves these, and DistributedDataParallel makes them equal
/// only at the next forward (SyncBatchNorm's are equal, and compared); the optimizer's state, parameter by
/// parameter. The state of torch::optim's optimizers is not seen: what differs there is in the parameters
/// after the next step.
///
/// Order    collective: every rank makes one for the same model, and calls it after the same steps, when the
///          optimizer has stepped.
/// Device   CPU or GPU, several in one replica; of the same kind on all ranks: others may round differently,
///          and their replicas do diverge.
/// Cost     all tensors are read once, as content_hash() does; one all-gather of 16 bytes, for which all
///          ranks and their devices wait. Hashes of single tensors are exchanged only when ranks differ. In a
///          world of one nothing is done.
/// Errors   DivergenceError on all ranks. Exception kConfig: every_steps below 1; a name in `ignored` that
///          the module does not have; sparse tensors; a ZeroRedundancyOptimizer, whose ranks each have a
///          state of their own; a PostLocalSgdOptimizer, whose ranks have a model of their own between two
///          averages.
/// Threads  the one that trains. The module and the optimizer outlive this.
class DivergenceCheck {
 public:
  DivergenceCheck(Group group, const torch::nn::Module& module, const FusedOptimizer& optimizer,
                  DivergenceCheckOptions options = {});
  /// Parameters and buffers alone.
  DivergenceCheck(Group group, const torch::nn::Module& module, DivergenceCheckOptions options = {});
  /// Whatever `tensors` gives: the same names in the same order on every rank.
  DivergenceCheck(Group group, std::function<std::vector<NamedTensor>()> tensors,
                  std::int64_t every_steps = 100);

  /// Compares if `step`, the number of steps so far, is a multiple of every_steps.
  void after_step(std::int64_t step);
  /// Compares now.
  void compare(std::int64_t step);
  /// The last step after which all ranks were equal.
  [[nodiscard]] std::optional<std::int64_t> last_equal_step() const { return last_equal_step_; }

 private:
  [[noreturn]] void complain(std::int64_t step, const std::vector<NamedTensor>& tensors,
                             const std::vector<TensorHash>& hashes) const;

  Group group_;
  std::function<std::vector<NamedTensor>()> tensors_;
  std::int64_t every_steps_;
  std::optional<std::int64_t> last_equal_step_;
};

}  // namespace ddprun
