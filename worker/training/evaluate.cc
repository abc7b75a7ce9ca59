#include "worker/training/evaluate.h"

#include <ddprun/sharded_evaluation.h>

#include <torch/torch.h>

#include <cmath>
#include <vector>

namespace ddprun::training {

LossSum sum_over_ranks(const Group& group, const LossSum& sum) {
  const std::vector<double> all = ddprun::sum_over_ranks(group, {sum.loss, static_cast<double>(sum.samples)});
  return {all[0], std::llround(all[1])};
}

Evaluation evaluate(models::Model& model, const data::Dataset& set, const Group& group,
                    const EvaluateOptions& options) {
  const torch::NoGradGuard no_grad;
  model.eval();
  data::BatchLoader loader(set, evaluation_shard(set.count, group), options.loader);
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
  sums = sums.cpu();
  const double* const mine = sums.const_data_ptr<double>();
  const std::vector<double> all = ddprun::sum_over_ranks(group, {mine, mine + 3});
  return {{all[0], std::llround(all[2])}, std::llround(all[1])};
}

}  // namespace ddprun::training
