#include "tests/support/catch.h"
#include "tests/unit/data_parallel/nets.h"
#include <ddprun/data_parallel.h>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/cuda.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace ddprun {
namespace {

using testing::batch;
using testing::calling;
using testing::cpus;
using torch::Tensor;

bool is_close(const Tensor& a, const Tensor& b) { return a.allclose(b, 1e-12, 1e-12); }

void check_same_gradients(const torch::nn::Module& a, const torch::nn::Module& b) {
  const auto gradients_a = a.named_parameters();
  const auto gradients_b = b.named_parameters();
  for (const auto& item : gradients_a) {
    INFO(item.key());
    CHECK(is_close(item->grad(), gradients_b[item.key()].grad()));
  }
}

TEST_CASE("outputs and gradients are those of the module on the whole batch") {
  for (const std::size_t devices : {1U, 2U, 3U, 4U}) {
    for (const std::int64_t rows : {1, 2, 3, 5, 8, 17}) {
      INFO(devices << " devices, batch of " << rows);
      auto model = testing::mlp();
      const auto alone = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(model->clone());
      DataParallel parallel(model, cpus(devices));
      const Tensor input = batch(rows).requires_grad_();
      const Tensor same = input.detach().clone().requires_grad_();
      const Tensor output = parallel(input);
      const Tensor expected = alone->forward(same);
      CHECK(is_close(output, expected));  // a product with one row may round differently
      output.square().sum().backward();
      expected.square().sum().backward();
      CHECK(is_close(input.grad(), same.grad()));
      check_same_gradients(*model, *alone);
    }
  }
}

TEST_CASE("training goes the way of the module alone") {
  auto model = testing::mlp();
  const auto alone = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(model->clone());
  DataParallel parallel(model, cpus(3));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::SGD reference(alone->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 20; ++step) {
    const Tensor input = batch(10);
    const Tensor target = torch::randn({10, 3}, torch::kDouble);
    optimizer.zero_grad();
    torch::mse_loss(parallel(input), target).backward();
    optimizer.step();
    reference.zero_grad();
    torch::mse_loss(alone->forward(input), target).backward();
    reference.step();
  }
  for (std::size_t i = 0; i < model->parameters().size(); ++i) {
    CHECK(is_close(model->parameters()[i], alone->parameters()[i]));
  }
}

TEST_CASE("a batch is cut as torch.chunk cuts it, and devices without a piece idle") {
  DataParallel parallel(calling([](const Tensor& weight, const Tensor& input) {
                          return torch::full({input.size(0)}, static_cast<double>(input.size(0))) * weight;
                        }),
                        cpus(4));
  const auto lengths = [&](std::int64_t rows) {
    const Scattered<Tensor> scattered = parallel.forward_scattered(batch(rows));
    CHECK(scattered.devices.size() == scattered.outputs.size());
    std::vector<std::int64_t> sizes;
    for (const Tensor& output : scattered.outputs) sizes.push_back(output.size(0));
    return sizes;
  };
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16}) {
    std::vector<std::int64_t> chunks;
    for (const Tensor& chunk : batch(rows).chunk(4)) chunks.push_back(chunk.size(0));
    CHECK(lengths(rows) == chunks);
  }
  CHECK(lengths(0) == std::vector<std::int64_t>{0});
}

TEST_CASE("replicas run at the same time, on threads of their own") {
  std::mutex mutex;
  std::condition_variable all_are_here;
  std::set<std::thread::id> threads;
  DataParallel parallel(calling([&](const Tensor& weight, const Tensor& input) {
                          std::unique_lock lock(mutex);
                          threads.insert(std::this_thread::get_id());
                          all_are_here.notify_all();
                          all_are_here.wait(lock, [&] { return threads.size() == 3; });  // a barrier
                          return input * weight;
                        }),
                        cpus(3));
  parallel(batch(6));
  CHECK(threads.count(std::this_thread::get_id()) == 1);
}

TEST_CASE("tuples, vectors, maps and scalars go in and come out") {
  using Inputs = std::tuple<Tensor, std::vector<Tensor>>;
  using Outputs = std::map<std::string, std::vector<Tensor>>;
  DataParallel parallel(
      calling([](const Tensor& weight, const Inputs& inputs, double factor, const Tensor& shift) {
        const auto& [a, others] = inputs;
        return Outputs{{"sum", {weight * factor * (a + others[0]) + shift}},
                       {"rows", {others[1].sum(), Tensor()}}};
      }),
      cpus(2));
  const Tensor a = batch(4), b = batch(4), ones = torch::ones({4});
  const Tensor shift = torch::tensor(7.0, torch::kDouble);
  const Outputs outputs = parallel(Inputs(a, {b, ones}), 2.0, shift);
  CHECK(is_close(outputs.at("sum")[0], 2 * (a + b) + 7));
  CHECK(outputs.at("rows")[0].equal(torch::tensor({2.0F, 2.0F})));  // one entry per replica
  CHECK(!outputs.at("rows")[1].defined());
}

TEST_CASE("a module without inputs runs once") {
  int runs = 0;
  DataParallel parallel(calling([&](const Tensor& weight) {
                          ++runs;
                          return weight * 2;
                        }),
                        cpus(4));
  CHECK(parallel().item<double>() == 2);
  CHECK(runs == 1);
}

TEST_CASE("the batch may be in another dimension") {
  DataParallel parallel(calling([](const Tensor& weight, const Tensor& input) { return input * weight; }),
                        cpus(2), {.dim = 1});
  const Tensor input = torch::randn({3, 5}, torch::kDouble);
  CHECK(parallel(input).equal(input));
  CHECK(parallel.forward_scattered(input).outputs[1].sizes() == at::IntArrayRef({3, 2}));
}

TEST_CASE("the output goes to the output device") {
  DataParallel parallel(calling([](const Tensor& weight, const Tensor& input) { return input * weight; }),
                        cpus(2), {.output_device = at::Device(at::kMeta)});
  CHECK(parallel.output_device() == at::Device(at::kMeta));
  const Tensor output = parallel(batch(5));
  CHECK(output.device() == at::Device(at::kMeta));
  CHECK(output.sizes() == at::IntArrayRef({5, 6}));
}

TEST_CASE("evaluation mode and running statistics are the module's") {
  testing::Net model;
  DataParallel parallel(model, cpus(3));
  const Tensor input = batch(9);
  parallel(input);
  testing::Net first_third;  // the first replica is the module: its piece makes the statistics
  first_third->one->weight.set_data(model->one->weight);
  first_third->one->bias.set_data(model->one->bias);
  first_third->forward(input.narrow(0, 0, 3));
  CHECK(is_close(model->norm->running_mean, first_third->norm->running_mean));
  CHECK(is_close(model->norm->running_var, first_third->norm->running_var));

  model->eval();
  CHECK(is_close(parallel(input), model->forward(input)));
  model->train();
  model->norm->eval();  // one layer alone
  CHECK(is_close(parallel(input), model->forward(input)));
}

TEST_CASE("AnyModule, shared pointers and modules without clone can be parallel") {
  const Tensor input = batch(5);
  torch::nn::Linear linear(6, 3);
  linear->to(torch::kDouble);
  DataParallel any(torch::nn::AnyModule(linear), cpus(2));
  CHECK(is_close(any(input), linear(input)));

  const auto net = std::make_shared<testing::NetImpl>();
  net->eval();
  DataParallel pointer(net, cpus(2));
  CHECK(is_close(pointer(input), net->forward(input)));

  testing::Plain plain;
  DataParallel made(plain, cpus(3), {.make_replica = [] { return testing::Plain(); }});
  CHECK(is_close(made(input), plain(input)));
  made(input).sum().backward();
  CHECK(is_close(plain->layer->bias.grad(), torch::full({3}, 5.0, torch::kDouble)));
}

TEST_CASE("sparse gradients of an embedding add up") {
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(5, 2).sparse(true));
  DataParallel parallel(table, cpus(2));
  parallel(torch::tensor({1, 1, 1, 3})).sum().backward();
  const Tensor gradient = table->weight.grad();
  CHECK(gradient.is_sparse());
  CHECK(gradient.to_dense().sum(1).equal(torch::tensor({0.0F, 6.0F, 0.0F, 2.0F, 0.0F})));
}

TEST_CASE("gradients of gradients reach the module") {
  auto model = testing::mlp();
  const auto alone = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(model->clone());
  DataParallel parallel(model, cpus(2));
  const auto penalty = [](const Tensor& input, const Tensor& output) {
    return torch::autograd::grad({output.sum()}, {input}, {}, true, true)[0].square().sum();
  };
  const Tensor input = batch(4).requires_grad_();
  penalty(input, parallel(input)).backward();
  penalty(input, alone->forward(input)).backward();
  CHECK(is_close(model->parameters()[0].grad(), alone->parameters()[0].grad()));
}

TEST_CASE("without devices given, all there are") {
  const auto devices = all_devices();
  REQUIRE(!devices.empty());
  if (!torch::cuda::is_available()) CHECK(devices == cpus(1));
}

}  // namespace
}  // namespace ddprun
