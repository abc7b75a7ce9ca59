#include "worker/tasks/classification.h"

#include <ddprun/exception.h>

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace ddprun::tasks {
namespace {

constexpr std::int64_t kNoClassIsIgnored = -100;

}  // namespace

at::Tensor Classification::loss(const at::Tensor& output, const Batch& batch) const {
  return at::cross_entropy_loss(output, batch.tensors[1], {}, at::Reduction::Mean, kNoClassIsIgnored,
                                label_smoothing_);
}

std::vector<Metric> Classification::metrics() const {
  return {{.name = "loss"}, {.name = "accuracy", .better = Metric::Better::kHigher, .is_share = true}};
}

at::Tensor Classification::sums(const at::Tensor& output, const Batch& batch) const {
  const at::Tensor& labels = batch.tensors[1];
  const at::Tensor loss = at::cross_entropy_loss(output, labels, {}, at::Reduction::Sum);
  const at::Tensor correct = output.argmax(1).eq(labels).sum();
  return at::stack({loss.to(at::kDouble), correct.to(at::kDouble)});
}

void register_classification(TaskRegistry& tasks) {
  tasks.add("classification", "one of several classes for each sample: cross-entropy, accuracy",
            [](const Options& options, const DataShape& data) {
              if (data.classes == 0) {
                throw Exception(ErrorCode::kConfig,
                                fmt::format("/task/type: classification needs data with classes, and its "
                                            "\"{}\" is a number; choose regression",
                                            data.tensors.back().name));
              }
              return std::make_unique<Classification>(options.number("label_smoothing"));
            });
}

}  // namespace ddprun::tasks
