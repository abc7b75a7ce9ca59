#include "worker/runtime/ddp/hooks/low_rank.h"
#include <ddprun/collectives.h>

#include <torch/types.h>

namespace ddprun {
namespace {

using at::Tensor;

struct Factors {
  Tensor matrix, p, q;  // batches of one: matrix ≈ p qᵀ
};

std::int64_t rank_for(const Tensor& matrix, const PowerSgdOptions& options) {
  return std::min({matrix.size(0), matrix.size(1), options.matrix_approximation_rank});
}

bool is_worth_compressing(const Tensor& matrix, const PowerSgdOptions& options) {
  const std::int64_t compressed = (matrix.size(0) + matrix.size(1)) * rank_for(matrix, options);
  return static_cast<double>(compressed) * options.min_compression_rate < static_cast<double>(matrix.numel());
}

// The memory of all Ps and all Qs, cut into those of each matrix; made where there is none yet.
std::vector<Factors> factors_of(const std::vector<Tensor>& matrices, const PowerSgdOptions& options,
                                const Tensor& buffer, runtime::LowRankMemory& memory) {
  std::int64_t p_size = 0;
  std::int64_t q_size = 0;
  for (const Tensor& matrix : matrices) {
    p_size += matrix.size(0) * rank_for(matrix, options);
    q_size += matrix.size(1) * rank_for(matrix, options);
  }
  runtime::fit(memory.p, p_size, buffer);
  runtime::fit(memory.q, q_size, buffer);
  if (!memory.p.defined()) memory.p = at::empty({p_size}, buffer.options());
  if (!memory.q.defined()) memory.q = at::empty({q_size}, buffer.options());

  std::vector<Factors> factors;
  std::int64_t p_offset = 0;
  std::int64_t q_offset = 0;
  for (const Tensor& matrix : matrices) {
    const std::int64_t n = matrix.size(0);
    const std::int64_t m = matrix.size(1);
    const std::int64_t rank = rank_for(matrix, options);
    factors.push_back({.matrix = matrix.unsqueeze(0),
                       .p = memory.p.narrow(0, p_offset, n * rank).view({1, n, rank}),
                       .q = memory.q.narrow(0, q_offset, m * rank).view({1, m, rank})});
    p_offset += n * rank;
    q_offset += m * rank;
  }
  return factors;
}

Tensor flatten(const std::vector<Tensor>& tensors, const Tensor& like) {
  std::vector<Tensor> flat;
  for (const Tensor& tensor : tensors) flat.push_back(tensor.view({-1}));
  return flat.empty() ? at::empty({0}, like.options()) : at::cat(flat);
}

void unflatten(const Tensor& memory, const std::vector<Tensor>& tensors) {
  std::int64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    tensor.copy_(memory.narrow(0, offset, tensor.numel()).view_as(tensor));
    offset += tensor.numel();
  }
}

void compress_matrices(PowerSgdState::Data& state, const c10d::GradBucket& bucket,
                       runtime::LowRankMemory& memory) {
  const PowerSgdOptions& options = state.options;
  const Group& group = state.group;
  const Tensor& buffer = bucket.getBuffer();
  runtime::fit(memory.error, buffer.numel(), buffer);
  Tensor original;
  if (options.use_error_feedback) {
    if (memory.error.defined()) buffer.add_(memory.error);
    original = buffer.detach().clone();
  }
  std::vector<Tensor> matrices;
  std::vector<Tensor> plain;
  for (const Tensor& gradient : bucket.getGradients()) {
    const bool is_matrix = gradient.dim() > 0 && gradient.numel() > 0;
    const Tensor matrix = is_matrix ? gradient.view({gradient.size(0), -1}) : gradient;
    const bool is_worth_it = is_matrix && is_worth_compressing(matrix, options);
    (is_worth_it ? matrices : plain).push_back(is_worth_it ? matrix : gradient);
  }
  const bool is_cold = !options.warm_start || !memory.q.defined();
  const std::vector<Factors> factors = factors_of(matrices, options, buffer, memory);
  if (is_cold) {
    std::vector<Tensor> all_q;
    for (const Factors& factor : factors) all_q.push_back(factor.q);
    state.noise.fill(all_q);
  }
  for (const Factors& factor : factors) runtime::orthogonalize(factor.q, options.orthogonalization_epsilon);

  Tensor plain_memory = flatten(plain, buffer);
  Pending plain_reduction = async_all_reduce(group, plain_memory);
  for (Factors factor : factors) at::bmm_out(factor.p, factor.matrix, factor.q);
  plain_reduction.wait();
  unflatten(plain_memory.div_(group.size()), plain);

  all_reduce(group, memory.p);  // orthogonalized next: its scale does not matter
  for (Factors factor : factors) {
    runtime::orthogonalize(factor.p, options.orthogonalization_epsilon);
    at::bmm_out(factor.q, factor.matrix.transpose(1, 2), factor.p);
  }
  all_reduce(group, memory.q);
  memory.q.div_(group.size());
  for (Factors factor : factors) at::bmm_out(factor.matrix, factor.p, factor.q.transpose(1, 2));
  if (options.use_error_feedback) memory.error = original - buffer;
  if (!options.warm_start) memory.p = memory.q = Tensor();
}

}  // namespace

CommHook power_sgd_hook(PowerSgdState state) {
  return runtime::low_rank_hook(std::move(state), compress_matrices);
}

}  // namespace ddprun
