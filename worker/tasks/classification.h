#pragma once

#include <ddprun/trainer/registry.h>

namespace ddprun::tasks {

/// One of several classes for each sample: cross-entropy and accuracy.
///
/// output   N × classes, logits
/// batch    [1] is the class, int64 [N], or, mixed in training, a share of each class, float [N, classes]
/// Source   torch.nn.CrossEntropyLoss, with its label smoothing (Szegedy et al. 2016)
class Classification final : public Task {
 public:
  explicit Classification(double label_smoothing) : label_smoothing_(label_smoothing) {}

  [[nodiscard]] at::Tensor loss(const at::Tensor& output, const Batch& batch) const override;
  [[nodiscard]] std::vector<Metric> metrics() const override;
  [[nodiscard]] at::Tensor sums(const at::Tensor& output, const Batch& batch) const override;

 private:
  double label_smoothing_;
};

void register_classification(TaskRegistry& tasks);

}  // namespace ddprun::tasks
