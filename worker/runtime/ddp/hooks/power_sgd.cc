#include "worker/runtime/ddp/hooks/low_rank.h"
#include <ddprun/collectives.h>

#include <torch/torch.h>

namespace ddprun {
namespace {

using at::Tensor;
using runtime::orthogonalize;

struct Factors {
  Tensor matrix, p, q;  // batches of one: matrix ≈ p qᵀ
};

class PowerSgd final : public runtime::LowRankHook {
 public:
  using LowRankHook::LowRankHook;

 private:
  [[nodiscard]] std::int64_t rank_for(const Tensor& matrix) const {
    return std::min({matrix.size(0), matrix.size(1), options().matrix_approximation_rank});
  }

  [[nodiscard]] bool is_worth_compressing(const Tensor& matrix) const {
    const std::int64_t compressed = (matrix.size(0) + matrix.size(1)) * rank_for(matrix);
    return static_cast<double>(compressed) * options().min_compression_rate <
           static_cast<double>(matrix.numel());
  }

  // Cuts the memory of all Ps and all Qs into those of each matrix.
  [[nodiscard]] std::vector<Factors> cut(const std::vector<Tensor>& matrices, const Memory& memory) const {
    std::vector<Factors> factors;
    std::int64_t p_offset = 0;
    std::int64_t q_offset = 0;
    for (const Tensor& matrix : matrices) {
      const std::int64_t n = matrix.size(0);
      const std::int64_t m = matrix.size(1);
      const std::int64_t rank = rank_for(matrix);
      factors.push_back({.matrix = matrix.unsqueeze(0),
                         .p = memory.p.narrow(0, p_offset, n * rank).view({1, n, rank}),
                         .q = memory.q.narrow(0, q_offset, m * rank).view({1, m, rank})});
      p_offset += n * rank;
      q_offset += m * rank;
    }
    return factors;
  }

  void allocate(const std::vector<Tensor>& matrices, const Tensor& like, Memory& memory) const {
    std::int64_t p_size = 0;
    std::int64_t q_size = 0;
    for (const Tensor& matrix : matrices) {
      p_size += matrix.size(0) * rank_for(matrix);
      q_size += matrix.size(1) * rank_for(matrix);
    }
    memory.p = at::empty({p_size}, like.options());
    memory.q = at::empty({q_size}, like.options());
  }

  void compress_and_reduce(c10d::GradBucket& bucket, Memory& memory) override {
    const Tensor& buffer = bucket.getBuffer();
    Tensor original;
    if (options().use_error_feedback) {
      if (memory.error.defined()) buffer.add_(memory.error);
      original = buffer.detach().clone();
    }
    std::vector<Tensor> matrices;
    std::vector<Tensor> plain;
    for (const Tensor& gradient : bucket.getGradients()) {
      const Tensor matrix = gradient.view({gradient.size(0), -1});
      (is_worth_compressing(matrix) ? matrices : plain)
          .push_back(is_worth_compressing(matrix) ? matrix : gradient);
    }
    const bool is_cold = !options().warm_start || !memory.q.defined();
    if (is_cold) allocate(matrices, buffer, memory);
    const std::vector<Factors> factors = cut(matrices, memory);
    if (is_cold) {
      std::vector<Tensor> all_q;
      for (const Factors& factor : factors) all_q.push_back(factor.q);
      noise().fill(all_q);
    }
    for (const Factors& factor : factors) orthogonalize(factor.q, options().orthogonalization_epsilon);

    Tensor plain_memory = flatten(plain, buffer);
    Pending plain_reduction = async_all_reduce(group(), plain_memory);
    for (Factors factor : factors) at::bmm_out(factor.p, factor.matrix, factor.q);
    plain_reduction.wait();
    unflatten(plain_memory.div_(group().size()), plain);

    all_reduce(group(), memory.p);  // orthogonalized next: its scale does not matter
    for (Factors factor : factors) {
      orthogonalize(factor.p, options().orthogonalization_epsilon);
      at::bmm_out(factor.q, factor.matrix.transpose(1, 2), factor.p);
    }
    all_reduce(group(), memory.q);
    memory.q.div_(group().size());
    for (Factors factor : factors) at::bmm_out(factor.matrix, factor.p, factor.q.transpose(1, 2));
    if (options().use_error_feedback) memory.error = original - buffer;
    if (!options().warm_start) memory.p = memory.q = Tensor();
  }

  static Tensor flatten(const std::vector<Tensor>& tensors, const Tensor& like) {
    std::vector<Tensor> flat;
    for (const Tensor& tensor : tensors) flat.push_back(tensor.view({-1}));
    return flat.empty() ? at::empty({0}, like.options()) : at::cat(flat);
  }

  static void unflatten(const Tensor& memory, const std::vector<Tensor>& tensors) {
    std::int64_t offset = 0;
    for (const Tensor& tensor : tensors) {
      tensor.copy_(memory.narrow(0, offset, tensor.numel()).view_as(tensor));
      offset += tensor.numel();
    }
  }
};

}  // namespace

CommHook power_sgd_hook(const Group& group, const PowerSgdOptions& options) {
  return runtime::make_low_rank_hook<PowerSgd>(group, options);
}

}  // namespace ddprun
