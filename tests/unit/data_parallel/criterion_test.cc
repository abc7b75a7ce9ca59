#include "tests/support/catch.h"
#include "tests/unit/data_parallel/nets.h"
#include <ddprun/data_parallel_criterion.h>

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/loss.h>

namespace ddprun {
namespace {

using testing::batch;
using testing::cpus;
using torch::Tensor;

std::shared_ptr<torch::nn::SequentialImpl> copy_of(const torch::nn::Sequential& model) {
  return std::dynamic_pointer_cast<torch::nn::SequentialImpl>(model->clone());
}

TEST_CASE("the balanced loss and its gradients are those of the whole batch") {
  for (const std::int64_t rows : {1, 2, 5, 7, 12}) {
    INFO("batch of " << rows);
    auto model = testing::mlp();
    const auto alone = copy_of(model);
    DataParallel parallel(model, cpus(3));
    DataParallelCriterion criterion{torch::nn::CrossEntropyLoss()};
    const Tensor input = batch(rows);
    const Tensor target = torch::randint(3, {rows});
    const Tensor loss = criterion(parallel.forward_scattered(input), target);
    const Tensor expected = torch::cross_entropy_loss(alone->forward(input), target);
    CHECK(loss.allclose(expected, 1e-12, 1e-12));
    loss.backward();
    expected.backward();
    for (std::size_t i = 0; i < model->parameters().size(); ++i) {
      CHECK(model->parameters()[i].grad().allclose(alone->parameters()[i].grad(), 1e-12, 1e-12));
    }
  }
}

TEST_CASE("a criterion that sums is summed") {
  auto model = testing::mlp();
  DataParallel parallel(model, cpus(2));
  DataParallelCriterion criterion(torch::nn::MSELoss(torch::nn::MSELossOptions(torch::kSum)),
                                  {.reduction = DataParallelCriterionOptions::Reduction::kSum});
  const Tensor input = batch(5);
  const Tensor target = torch::zeros({5, 3}, torch::kDouble);
  CHECK(criterion(parallel.forward_scattered(input), target)
            .allclose(model->forward(input).square().sum(), 1e-12, 1e-12));
}

TEST_CASE("a criterion may be a function, of any outputs and targets") {
  using Pair = std::pair<Tensor, Tensor>;
  DataParallel parallel(
      testing::calling([](const Tensor& weight, const Tensor& input) { return Pair(weight * input, input); }),
      cpus(2));
  DataParallelCriterion criterion([](const Pair& output, const std::vector<Tensor>& targets, double factor) {
    return factor * (output.first - output.second + targets[0]).mean();
  });
  const Tensor target = torch::arange(10, torch::kDouble).view({5, 2});
  const Tensor loss = criterion(parallel.forward_scattered(torch::ones({5, 2}, torch::kDouble)),
                                std::vector<Tensor>{target}, 2.0);
  CHECK(loss.item<double>() == Approx(9.0));
}

TEST_CASE("the loss goes to the output device, and a criterion's own tensors to every device") {
  auto model = testing::mlp();
  DataParallel parallel(model, cpus(2));
  const Tensor weights = torch::tensor({1.0, 2.0, 3.0}, torch::kDouble);
  DataParallelCriterion criterion(
      torch::nn::CrossEntropyLoss(
          torch::nn::CrossEntropyLossOptions().weight(weights).reduction(torch::kSum)),
      {.reduction = DataParallelCriterionOptions::Reduction::kSum, .output_device = at::Device(at::kMeta)});
  const Tensor loss = criterion(parallel.forward_scattered(batch(4)), torch::randint(3, {4}));
  CHECK(loss.device() == at::Device(at::kMeta));
  CHECK(loss.dim() == 0);
}

TEST_CASE("targets that do not fit and losses that are none are refused") {
  DataParallel parallel(testing::mlp(), cpus(2));
  DataParallelCriterion criterion(
      [](const Tensor& output, const Tensor& target) { return (output - target).square(); });
  const auto outputs = parallel.forward_scattered(batch(4));
  CHECK_THROWS_WITH(
      criterion(outputs, torch::zeros({1, 3})),
      "DataParallelCriterion: a batch of 1 makes 1 pieces, the outputs have 2; give outputs and "
      "targets of the same batch");
  CHECK_THROWS_WITH(criterion(outputs, torch::zeros({4, 3})),
                    "DataParallelCriterion: the criterion gave a loss of shape [2, 3]; expected one without "
                    "dimensions: let it reduce over the samples");
  CHECK_THROWS_WITH(
      criterion(outputs, torch::zeros({4, 5})),
      Catch::StartsWith("DataParallelCriterion: replica 0 of 2, on cpu, failed: The size of tensor a"));
}

}  // namespace
}  // namespace ddprun
