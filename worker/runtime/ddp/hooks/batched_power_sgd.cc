#include "worker/runtime/ddp/hooks/low_rank.h"
#include <ddprun/collectives.h>

#include <torch/types.h>

#include <cmath>

namespace ddprun {
namespace {

using at::Tensor;

void compress_squares(PowerSgdState::Data& state, const c10d::GradBucket& bucket,
                      runtime::LowRankMemory& memory) {
  const PowerSgdOptions& options = state.options;
  const Tensor& buffer = bucket.getBuffer();
  const std::int64_t length = buffer.numel();
  const auto side = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(length))));
  const std::int64_t rank = std::min(side, options.matrix_approximation_rank);
  runtime::fit(memory.error, side * side, buffer);
  runtime::fit(memory.p, side * rank, buffer);
  runtime::fit(memory.q, side * rank, buffer);
  const auto orthogonalize = [&](const Tensor& matrix) {
    runtime::orthogonalize(matrix.unsqueeze(0), options.orthogonalization_epsilon);
  };

  Tensor square = at::zeros({side, side}, buffer.options());
  const Tensor flat = square.view({-1}).narrow(0, 0, length);
  flat.copy_(buffer);
  Tensor original;
  if (options.use_error_feedback) {
    if (memory.error.defined()) square.add_(memory.error);
    original = square.clone();
  }
  if (!options.warm_start || !memory.q.defined()) {
    memory.p = at::empty({side, rank}, buffer.options());
    memory.q = at::empty({side, rank}, buffer.options());
    state.noise.fill({memory.q});
  }
  orthogonalize(memory.q);
  at::matmul_out(memory.p, square, memory.q);
  all_reduce(state.group, memory.p);  // orthogonalized next: its scale does not matter
  orthogonalize(memory.p);
  at::matmul_out(memory.q, square.t(), memory.p);
  all_reduce(state.group, memory.q);
  memory.q.div_(state.group.size());
  at::matmul_out(square, memory.p, memory.q.t());
  if (options.use_error_feedback) memory.error = original - square;
  buffer.copy_(flat);
}

}  // namespace

CommHook batched_power_sgd_hook(PowerSgdState state) {
  return runtime::low_rank_hook(std::move(state), compress_squares);
}

}  // namespace ddprun
