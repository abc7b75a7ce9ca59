#include "worker/runtime/ddp/hooks/low_rank.h"
#include <ddprun/collectives.h>

#include <torch/torch.h>

#include <cmath>

namespace ddprun {
namespace {

using at::Tensor;

class BatchedPowerSgd final : public runtime::LowRankHook {
 public:
  using LowRankHook::LowRankHook;

 private:
  void compress_and_reduce(c10d::GradBucket& bucket, Memory& memory) override {
    const Tensor& buffer = bucket.getBuffer();
    const std::int64_t length = buffer.numel();
    const auto side = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(length))));
    Tensor square = at::zeros({side, side}, buffer.options());
    const Tensor flat = square.view({-1}).narrow(0, 0, length);
    flat.copy_(buffer);
    Tensor original;
    if (options().use_error_feedback) {
      if (memory.error.defined()) square.add_(memory.error);
      original = square.clone();
    }
    if (!options().warm_start || !memory.q.defined()) {
      const std::int64_t rank = std::min(side, options().matrix_approximation_rank);
      memory.p = at::empty({side, rank}, buffer.options());
      memory.q = at::empty({side, rank}, buffer.options());
      noise().fill({memory.q});
    }
    orthogonalize(memory.q);
    at::matmul_out(memory.p, square, memory.q);
    all_reduce(group(), memory.p);  // orthogonalized next: its scale does not matter
    orthogonalize(memory.p);
    at::matmul_out(memory.q, square.t(), memory.p);
    all_reduce(group(), memory.q);
    memory.q.div_(group().size());
    at::matmul_out(square, memory.p, memory.q.t());
    if (options().use_error_feedback) memory.error = original - square;
    buffer.copy_(flat);
  }

  void orthogonalize(const Tensor& matrix) const {
    runtime::orthogonalize(matrix.unsqueeze(0), options().orthogonalization_epsilon);
  }
};

}  // namespace

CommHook batched_power_sgd_hook(const Group& group, const PowerSgdOptions& options) {
  return runtime::make_low_rank_hook<BatchedPowerSgd>(group, options);
}

}  // namespace ddprun
