#include "worker/tasks/regression.h"

#include <ddprun/exception.h>

#include <ATen/ATen.h>

#include <string>

namespace ddprun::tasks {

at::Tensor Regression::loss(const at::Tensor& output, const Batch& batch) const {
  return at::mse_loss(output, batch.tensors[1].view_as(output));
}

std::int64_t Regression::items(const Batch& batch) const { return batch.tensors[1].numel(); }

std::vector<Metric> Regression::metrics() const { return {{.name = "loss"}, {.name = "absolute_error"}}; }

at::Tensor Regression::sums(const at::Tensor& output, const Batch& batch) const {
  const at::Tensor target = batch.tensors[1].view_as(output);
  const at::Tensor squared = at::mse_loss(output, target, at::Reduction::Sum);
  const at::Tensor absolute = at::l1_loss(output, target, at::Reduction::Sum);
  return at::stack({squared.to(at::kDouble), absolute.to(at::kDouble)});
}

void register_regression(TaskRegistry& tasks) {
  tasks.add(
      "regression", "numbers for each sample: mean squared error", [](const Options&, const DataShape& data) {
        if (data.tensors.size() < 2 || data.classes > 0) {
          throw Exception(ErrorCode::kConfig,
                          "/task/type: regression needs data with numbers to learn, and this data has " +
                              std::string(data.classes > 0 ? "classes; choose classification"
                                                           : "none beside the model's input"));
        }
        return std::make_unique<Regression>();
      });
}

}  // namespace ddprun::tasks
