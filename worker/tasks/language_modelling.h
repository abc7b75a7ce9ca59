#pragma once

#include <ddprun/trainer/registry.h>

namespace ddprun::tasks {

/// The next token after each token of a sample: cross-entropy over the vocabulary.
///
/// output   N × tokens × vocabulary, logits
/// batch    [1] is the next token, int64 [N, tokens]; an item is a token
class LanguageModelling final : public Task {
 public:
  [[nodiscard]] at::Tensor loss(const at::Tensor& output, const Batch& batch) const override;
  [[nodiscard]] std::int64_t items(const Batch& batch) const override;
  [[nodiscard]] std::vector<Metric> metrics() const override;
  [[nodiscard]] at::Tensor sums(const at::Tensor& output, const Batch& batch) const override;
};

void register_language_modelling(TaskRegistry& tasks);

}  // namespace ddprun::tasks
