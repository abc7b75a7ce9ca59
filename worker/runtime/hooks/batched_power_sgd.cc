#include "worker/runtime/hooks/average_future.h"
#include "worker/runtime/hooks/low_rank.h"
#include <ddprun/collectives.h>

#include <torch/torch.h>

#include <cmath>
#include <map>

namespace ddprun {
namespace {

using at::Tensor;

class BatchedPowerSgd {
 public:
  BatchedPowerSgd(Group group, const PowerSgdOptions& options)
      : group_(std::move(group)), options_(options), noise_(options.seed) {}

  c10::intrusive_ptr<c10::ivalue::Future> reduce(c10d::GradBucket& bucket) {
    const Tensor buffer = bucket.getBuffer();
    const bool is_plain = step_ < options_.start_step;
    if (bucket.isLast()) ++step_;
    if (is_plain) return runtime::average_async(group_, buffer);
    compress_and_reduce(memory_[bucket.getIndex()], buffer);
    return runtime::completed(buffer);
  }

 private:
  struct Memory {  // of one bucket
    Tensor error, p, q;
  };

  void compress_and_reduce(Memory& memory, const Tensor& buffer) {
    const std::int64_t length = buffer.numel();
    const auto side = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(length))));
    Tensor square = at::zeros({side, side}, buffer.options());
    const Tensor flat = square.view({-1}).narrow(0, 0, length);
    flat.copy_(buffer);
    Tensor original;
    if (options_.use_error_feedback) {
      if (memory.error.defined()) square.add_(memory.error);
      original = square.clone();
    }
    if (!options_.warm_start || !memory.q.defined()) {
      const std::int64_t rank = std::min(side, options_.matrix_approximation_rank);
      memory.p = at::empty({side, rank}, buffer.options());
      memory.q = at::empty({side, rank}, buffer.options());
      noise_.fill({memory.q});
    }
    orthogonalize(memory.q);
    at::matmul_out(memory.p, square, memory.q);
    all_reduce(group_, memory.p);  // orthogonalized next: its scale does not matter
    orthogonalize(memory.p);
    at::matmul_out(memory.q, square.t(), memory.p);
    all_reduce(group_, memory.q);
    memory.q.div_(group_.size());
    at::matmul_out(square, memory.p, memory.q.t());
    if (options_.use_error_feedback) memory.error = original - square;
    buffer.copy_(flat);
  }

  void orthogonalize(const Tensor& matrix) const {
    runtime::orthogonalize(matrix.unsqueeze(0), options_.orthogonalization_epsilon);
  }

  Group group_;
  PowerSgdOptions options_;
  runtime::SharedNoise noise_;
  std::map<std::size_t, Memory> memory_;
  std::int64_t step_ = 0;
};

}  // namespace

CommHook batched_power_sgd_hook(const Group& group, const PowerSgdOptions& options) {
  runtime::check_start_step(options);
  auto state = std::make_shared<BatchedPowerSgd>(group, options);
  return [state](c10d::GradBucket& bucket) { return state->reduce(bucket); };
}

}  // namespace ddprun
