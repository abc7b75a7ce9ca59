#include "tests/support/catch.h"
#include "tests/unit/data_parallel/nets.h"
#include <ddprun/data_parallel.h>

#include <torch/nn/modules/linear.h>

#include <mutex>
#include <set>

namespace ddprun {
namespace {

using testing::batch;
using testing::cpus;
using torch::Tensor;

// Which modules ran: the original and replicas, told by the address of their weights.
struct Seen {
  std::mutex mutex;
  std::set<const void*> weights;
};

auto noting(Seen& seen) {
  return testing::calling([&seen](const Tensor& weight, const Tensor& input) {
    const std::lock_guard lock(seen.mutex);
    seen.weights.insert(weight.unsafeGetTensorImpl());
    return weight * input;
  });
}

TEST_CASE("replicas are made once and used in every step") {
  Seen seen;
  DataParallel parallel(noting(seen), cpus(3));
  for (int step = 0; step < 5; ++step) parallel(batch(6)).sum().backward();
  CHECK(seen.weights.size() == 3);
  const at::NoGradGuard no_grad;
  parallel(batch(6));
  CHECK(seen.weights.size() == 3);
}

TEST_CASE("a forward before the last one's backward does not disturb it") {
  Seen seen;
  const auto model = noting(seen);
  DataParallel parallel(model, cpus(2));
  const Tensor input = torch::ones({2}, torch::kDouble).requires_grad_();
  const Tensor first = parallel(input);
  {
    const at::NoGradGuard no_grad;
    model->weight.data().fill_(5);  // behind autograd's back: what the first graph saved must stay
  }
  const Tensor second = parallel(input);
  CHECK(seen.weights.size() == 3);  // the second replica of the first forward is still held
  first.narrow(0, 1, 1).sum().backward();
  CHECK(input.grad().equal(torch::tensor({0.0, 1.0}, torch::kDouble)));
  input.mutable_grad().zero_();
  second.narrow(0, 1, 1).sum().backward();
  CHECK(input.grad().equal(torch::tensor({0.0, 5.0}, torch::kDouble)));
  CHECK(model->weight.grad().item<double>() == 2);
}

TEST_CASE("a view of a replica's weight keeps its value") {
  const auto model = testing::calling(
      [](const Tensor& weight, const Tensor& input) { return weight.expand({input.size(0)}); });
  DataParallel parallel(model, cpus(2));
  const Scattered<Tensor> kept = parallel.forward_scattered(batch(2));
  model->weight.data().fill_(3);
  parallel(batch(2));
  CHECK(kept.outputs[1].item<double>() == 1);
}

TEST_CASE("replicas take over the optimizer's values, buffers and frozen parameters") {
  testing::Net model;
  model->eval();
  DataParallel parallel(model, cpus(2));
  const Tensor input = batch(4);
  parallel(input);
  {
    const at::NoGradGuard no_grad;
    model->two->bias.fill_(9);
    model->norm->running_mean.fill_(0.5);
  }
  model->one->weight.set_requires_grad(false);
  const Tensor output = parallel(input);
  CHECK(output.allclose(model->forward(input), 1e-12, 1e-12));
  output.sum().backward();
  CHECK(!model->one->weight.grad().defined());
  CHECK(model->one->bias.grad().defined());
  model->one->weight.set_requires_grad(true);
  parallel(input).sum().backward();
  CHECK(model->one->weight.grad().defined());
}

TEST_CASE("tied weights stay tied, and their gradient is the sum of all uses") {
  struct Tied : torch::nn::Module {
    Tied() {
      weight = register_module("in", torch::nn::Linear(torch::nn::LinearOptions(6, 6).bias(false)))->weight;
    }
    Tensor forward(const Tensor& input) {
      return torch::linear(torch::tanh(torch::linear(input, weight)), weight);
    }
    Tensor weight;
  };
  const auto model = std::make_shared<Tied>();
  DataParallel parallel(model, cpus(3), {.make_replica = [] { return std::make_shared<Tied>(); }});
  const Tensor input = torch::randn({6, 6});
  parallel(input).sum().backward();
  const Tensor gradient = model->weight.grad().clone();
  model->zero_grad();
  model->forward(input).sum().backward();
  CHECK(gradient.allclose(model->weight.grad(), 1e-5, 1e-5));
}

TEST_CASE("a module that changes its dtype gets new replicas") {
  auto model = testing::mlp();
  DataParallel parallel(model, cpus(2));
  parallel(batch(4));
  model->to(torch::kFloat);
  CHECK(parallel(batch(4).to(torch::kFloat)).dtype() == torch::kFloat);
}

TEST_CASE("making replicas leaves the random numbers as they were") {
  torch::manual_seed(3);
  auto model = testing::mlp();
  const Tensor expected = torch::rand({4});
  torch::manual_seed(3);
  auto again = testing::mlp();
  DataParallel parallel(again, cpus(4));
  parallel(torch::zeros({8, 6}, torch::kDouble));
  CHECK(torch::rand({4}).equal(expected));
}

TEST_CASE("replicas run with the caller's modes") {
  std::mutex mutex;
  std::vector<bool> with_gradients;
  DataParallel parallel(testing::calling([&](const Tensor& weight, const Tensor& input) {
                          const std::lock_guard lock(mutex);
                          with_gradients.push_back(at::GradMode::is_enabled());
                          return weight * input;
                        }),
                        cpus(2));
  parallel(batch(2));
  CHECK(with_gradients == std::vector<bool>{true, true});
  const at::NoGradGuard no_grad;
  CHECK(!parallel(batch(2)).requires_grad());
  CHECK(with_gradients == std::vector<bool>{true, true, false, false});
}

}  // namespace
}  // namespace ddprun
