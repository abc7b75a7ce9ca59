#include "tests/support/catch.h"
#include "worker/tasks/classification.h"
#include "worker/tasks/language_modelling.h"
#include "worker/tasks/registry.h"
#include "worker/tasks/regression.h"

#include <torch/types.h>

using namespace ddprun;
using namespace ddprun::tasks;

namespace {

/// The metrics are sums of what the loss is a mean of, but for what only training has.
void check_sums(const Task& task, const at::Tensor& output, const Batch& batch) {
  const at::Tensor sums = task.sums(output, batch);
  CHECK(sums.scalar_type() == at::kDouble);
  CHECK(sums.numel() == static_cast<std::int64_t>(task.metrics().size()));
  CHECK(sums[0].item<double>() / static_cast<double>(task.items(batch)) ==
        Approx(task.loss(output, batch).item<double>()));
}

}  // namespace

TEST_CASE("classification counts the hits and sums the loss over samples") {
  const Classification task(/*label_smoothing=*/0);
  const at::Tensor output = at::tensor({2.0F, 1.0F, 0.0F, 1.0F, 0.0F, 3.0F}).view({3, 2});
  const Batch batch{{at::zeros({3, 1}), at::tensor({0, 1, 0}, at::kLong)}, 3};
  check_sums(task, output, batch);
  CHECK(task.sums(output, batch)[1].item<double>() == 2);
}

TEST_CASE("label smoothing is in the loss of training and not in the metrics") {
  const at::Tensor output = torch::randn({8, 5});
  const Batch batch{{at::zeros({8, 1}), at::arange(8) % 5}, 8};
  const Classification plain(0);
  const Classification smooth(0.1);
  CHECK(at::equal(smooth.sums(output, batch), plain.sums(output, batch)));
  const at::Tensor expected = 0.9 * plain.loss(output, batch) - 0.1 * at::log_softmax(output, 1).mean();
  CHECK(smooth.loss(output, batch).item<double>() == Approx(expected.item<double>()));
}

TEST_CASE("regression takes the target in the shape of the output") {
  const Regression task;
  const Batch batch{{at::zeros({4, 2}), at::tensor({1.0F, 2.0F, 3.0F, 4.0F})}, 4};
  const at::Tensor output = at::tensor({1.0F, 2.0F, 3.0F, 6.0F}).view({4, 1});
  check_sums(task, output, batch);
  CHECK(task.loss(output, batch).item<double>() == 1);
  CHECK(task.sums(output, batch)[1].item<double>() == 2);
}

TEST_CASE("an item of language modelling is a token") {
  const LanguageModelling task;
  const Batch batch{{at::zeros({2, 3}, at::kLong), at::randint(7, {2, 3}, at::kLong)}, 2};
  check_sums(task, torch::randn({2, 3, 7}), batch);
  CHECK(task.items(batch) == 6);
}

TEST_CASE("the task that suits data is told by its targets") {
  CHECK(task_for({.tensors = {{"image", {1, 28, 28}}, {"label", {}, at::kLong}}, .classes = 10}) ==
        "classification");
  CHECK(task_for({.tensors = {{"tokens", {8}}, {"next", {8}}}, .classes = 65}) == "language_modelling");
  CHECK(task_for({.tensors = {{"x", {3}}, {"y", {}}}}) == "regression");
}
