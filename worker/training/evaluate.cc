#include "worker/training/evaluate.h"

#include <ddprun/collectives.h>

#include <torch/torch.h>

#include <cmath>
#include <numeric>

namespace ddprun::training {

std::vector<std::int64_t> evaluation_shard(std::int64_t count, int rank, int world_size) {
  const std::int64_t first = count * rank / world_size;
  const std::int64_t last = count * (rank + 1) / world_size;
  std::vector<std::int64_t> indices(static_cast<std::size_t>(last - first));
  std::iota(indices.begin(), indices.end(), first);
  return indices;
}

LossSum sum_over_ranks(const Group& group, const LossSum& sum) {
  at::Tensor sums =
      at::tensor({sum.loss, static_cast<double>(sum.samples)}, at::kDouble).to(collective_device(group));
  all_reduce(group, sums);
  return {sums[0].item<double>(), std::llround(sums[1].item<double>())};
}

Evaluation evaluate(models::Model& model, const data::Dataset& set, const Group& group,
                    const EvaluateOptions& options) {
  const torch::NoGradGuard no_grad;
  model.eval();
  data::BatchLoader loader(set, evaluation_shard(set.count, group.rank(), group.size()), options.loader);
  // loss, correct, samples: added up where the model is, read once.
  at::Tensor sums = at::zeros({3}, at::TensorOptions(options.device).dtype(at::kDouble));
  while (const std::optional<data::Batch> batch = loader.next()) {
    const at::Tensor labels = batch->labels.to(options.device, /*non_blocking=*/true);
    const at::Tensor logits = model.forward(batch->images.to(options.device, /*non_blocking=*/true));
    const at::Tensor loss = at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum);
    const at::Tensor correct = logits.argmax(1).eq(labels).sum();
    sums += at::stack(
        {loss.to(at::kDouble), correct.to(at::kDouble), at::full_like(loss, labels.numel(), at::kDouble)});
    if (options.after_batch) options.after_batch();
  }
  sums = sums.to(collective_device(group));
  all_reduce(group, sums);
  sums = sums.cpu();
  const double* value = sums.const_data_ptr<double>();
  return {{value[0], std::llround(value[2])}, std::llround(value[1])};
}

}  // namespace ddprun::training
