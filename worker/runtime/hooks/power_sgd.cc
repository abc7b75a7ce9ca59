#include "worker/runtime/hooks/average_future.h"
#include "worker/runtime/hooks/low_rank.h"
#include <ddprun/collectives.h>

#include <torch/torch.h>

#include <map>

namespace ddprun {
namespace {

using at::Tensor;
using runtime::orthogonalize;

struct Factors {
  Tensor matrix, p, q;  // batches of one: matrix ≈ p qᵀ
};

class PowerSgd {
 public:
  PowerSgd(Group group, const PowerSgdOptions& options)
      : group_(std::move(group)), options_(options), noise_(options.seed) {}

  c10::intrusive_ptr<c10::ivalue::Future> reduce(c10d::GradBucket& bucket) {
    const Tensor buffer = bucket.getBuffer();
    if (step_ < options_.start_step) {
      if (bucket.isLast()) ++step_;
      return runtime::average_async(group_, buffer);
    }
    compress_and_reduce(bucket, buffer);
    if (bucket.isLast()) ++step_;
    return runtime::completed(buffer);
  }

 private:
  struct Memory {  // of one bucket
    Tensor error, p, q;
  };

  [[nodiscard]] std::int64_t rank_for(const Tensor& matrix) const {
    return std::min({matrix.size(0), matrix.size(1), options_.matrix_approximation_rank});
  }

  [[nodiscard]] bool is_worth_compressing(const Tensor& matrix) const {
    const std::int64_t compressed = (matrix.size(0) + matrix.size(1)) * rank_for(matrix);
    return static_cast<double>(compressed) * options_.min_compression_rate <
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

  void compress_and_reduce(c10d::GradBucket& bucket, const Tensor& buffer) {
    Memory& memory = memory_[bucket.getIndex()];
    Tensor original;
    if (options_.use_error_feedback) {
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
    const bool is_cold = !options_.warm_start || !memory.q.defined();
    if (is_cold) allocate(matrices, buffer, memory);
    const std::vector<Factors> factors = cut(matrices, memory);
    if (is_cold) {
      std::vector<Tensor> all_q;
      for (const Factors& factor : factors) all_q.push_back(factor.q);
      noise_.fill(all_q);
    }
    for (const Factors& factor : factors) orthogonalize(factor.q, options_.orthogonalization_epsilon);

    Tensor plain_memory = flatten(plain, buffer);
    Pending plain_reduction = async_all_reduce(group_, plain_memory);
    for (Factors factor : factors) at::bmm_out(factor.p, factor.matrix, factor.q);
    plain_reduction.wait();
    unflatten(plain_memory.div_(group_.size()), plain);

    all_reduce(group_, memory.p);  // orthogonalized next: its scale does not matter
    for (Factors factor : factors) {
      orthogonalize(factor.p, options_.orthogonalization_epsilon);
      at::bmm_out(factor.q, factor.matrix.transpose(1, 2), factor.p);
    }
    all_reduce(group_, memory.q);
    memory.q.div_(group_.size());
    for (Factors factor : factors) at::bmm_out(factor.matrix, factor.p, factor.q.transpose(1, 2));
    if (options_.use_error_feedback) memory.error = original - buffer;
    if (!options_.warm_start) memory.p = memory.q = Tensor();
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

  Group group_;
  PowerSgdOptions options_;
  runtime::SharedNoise noise_;
  std::map<std::size_t, Memory> memory_;
  std::int64_t step_ = 0;
};

}  // namespace

CommHook power_sgd_hook(const Group& group, const PowerSgdOptions& options) {
  runtime::check_start_step(options);
  auto state = std::make_shared<PowerSgd>(group, options);
  return [state](c10d::GradBucket& bucket) { return state->reduce(bucket); };
}

}  // namespace ddprun
