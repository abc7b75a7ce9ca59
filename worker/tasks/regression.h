#pragma once

#include <ddprun/trainer/registry.h>

namespace ddprun::tasks {

/// Numbers for each sample: mean squared error, and mean absolute error as a metric.
///
/// output   N × numbers
/// batch    [1] has the output's shape; an item is one of its numbers, as in torch.nn.MSELoss
class Regression final : public Task {
 public:
  [[nodiscard]] at::Tensor loss(const at::Tensor& output, const Batch& batch) const override;
  [[nodiscard]] std::int64_t items(const Batch& batch) const override;
  [[nodiscard]] std::vector<Metric> metrics() const override;
  [[nodiscard]] at::Tensor sums(const at::Tensor& output, const Batch& batch) const override;
};

void register_regression(TaskRegistry& tasks);

}  // namespace ddprun::tasks
