#include "tests/integration/runtime/batch_norm_kernels.h"
#include "tests/integration/runtime/in_threads.h"
#include "tests/support/catch.h"
#include <ddprun/collectives.h>
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/sync_batch_norm.h>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <optional>
#include <sstream>

namespace ddprun {
namespace {

using testing::BatchNormKernels;
using testing::message_of;
using testing::run_ranks;
using testing::run_ranks_to_success;
namespace nn = torch::nn;
using torch::Tensor;

// With what ATen has for GPUs, and with the formula of ours.
std::optional<BatchNormKernels> maybe_with_kernels() {
  std::optional<BatchNormKernels> kernels;
  if (GENERATE(false, true)) kernels.emplace();
  return kernels;
}

TEST_CASE("a layer that is converted keeps what it trains, and what is frozen") {
  run_ranks_to_success(1, [](const Group& group) {
    nn::BatchNorm1d norm(3);
    norm->weight.set_requires_grad(false);
    const Tensor weight = norm->weight;
    const Tensor bias = norm->bias;
    const SyncBatchNorm converted = convert_sync_batchnorm(norm, group);
    CHECK_IN_RANK(converted->weight.is_same(weight));
    CHECK_IN_RANK(!weight.requires_grad());
    CHECK_IN_RANK(bias.requires_grad());
    CHECK_IN_RANK(SyncBatchNorm(3, group)->weight.requires_grad());
  });
}

TEST_CASE("SyncBatchNorm with batches of different sizes equals one whole batch") {
  const auto kernels = maybe_with_kernels();
  const auto whole = torch::randn({5, 3, 4}, torch::kDouble);
  torch::nn::BatchNorm1d reference(3);
  reference->to(torch::kDouble);
  const auto whole_input = whole.clone().requires_grad_();
  const auto expected = reference(whole_input);
  (expected * expected.detach().cos()).sum().backward();
  run_ranks_to_success(2, [&](const Group& group) {
    SyncBatchNorm norm(3, group);
    norm->to(torch::kDouble);
    const bool first = group.rank() == 0;
    const auto input = (first ? whole.narrow(0, 0, 2) : whole.narrow(0, 2, 3)).clone().requires_grad_();
    const auto output = norm(input);
    (output * output.detach().cos()).sum().backward();
    const auto mine = [&](const torch::Tensor& all) {
      return first ? all.narrow(0, 0, 2) : all.narrow(0, 2, 3);
    };
    CHECK_IN_RANK(output.allclose(mine(expected), 1e-10, 1e-10));
    CHECK_IN_RANK(input.grad().allclose(mine(whole_input.grad()), 1e-10, 1e-10));
    auto weight_gradient = norm->weight.grad().clone();
    all_reduce(group, weight_gradient);
    CHECK_IN_RANK(weight_gradient.allclose(reference->weight.grad(), 1e-10, 1e-10));
    CHECK_IN_RANK(norm->running_var.allclose(reference->running_var, 1e-10, 1e-10));
    norm->eval();
    CHECK_IN_RANK(norm(input).sizes() == input.sizes());
  });
}

TEST_CASE("a rank without samples takes part") {
  const auto kernels = maybe_with_kernels();
  run_ranks_to_success(2, [](const Group& group) {
    SyncBatchNorm norm(3, group);
    const auto input = group.rank() == 0 ? torch::randn({6, 3}) : torch::empty({0, 3});
    norm(input).sum().backward();
    CHECK_IN_RANK(norm->running_mean.allclose(all_gather(group, norm->running_mean)[0]));
    CHECK_IN_RANK(norm->num_batches_tracked.item<std::int64_t>() == 1);
  });
}

// Alone it is torch.nn.functional.batch_norm's, as in Python, which counts the batch; Python has nothing for
// several ranks that are all without samples.
TEST_CASE("a batch without samples on any rank leaves the running statistics as they were") {
  const auto kernels = maybe_with_kernels();
  const int world = GENERATE(1, 2);
  const bool is_cumulative = GENERATE(false, true);
  run_ranks_to_success(world, [&](const Group& group) {
    nn::BatchNormOptions options(3);
    if (is_cumulative) options.momentum(std::nullopt);
    SyncBatchNorm norm(options, group);
    norm(torch::randn({4, 3}));
    const Tensor mean = norm->running_mean.clone(), variance = norm->running_var.clone();
    const Tensor input = torch::empty({0, 3}, torch::requires_grad());
    const Tensor output = norm(input);
    CHECK_IN_RANK(output.sizes() == input.sizes());
    output.sum().backward();
    CHECK_IN_RANK(norm->running_mean.equal(mean));
    CHECK_IN_RANK(norm->running_var.equal(variance));
    CHECK_IN_RANK(norm->num_batches_tracked.item<std::int64_t>() == (world == 1 ? 2 : 1));
    const Tensor weight_gradient = norm->weight.grad();
    CHECK_IN_RANK(!weight_gradient.defined() || weight_gradient.eq(0).all().item<bool>());
    norm(torch::randn({4, 3})).sum().backward();  // the ranks are still in step
    CHECK_IN_RANK(norm->running_var.isfinite().all().item<bool>());
  });
}

TEST_CASE(
    "the kernels of a GPU are used where ATen has them, and a layer may have no weight, bias or statistics") {
  torch::manual_seed(2);
  const Tensor whole =
      torch::randn({6, 3, 4, 4}, torch::kDouble).contiguous(torch::MemoryFormat::ChannelsLast);
  const auto train = [&](const nn::BatchNormOptions& options, const Group& group) {
    SyncBatchNorm norm(options, group);
    norm->to(torch::kDouble);
    const Tensor input = whole.narrow(0, 3 * group.rank(), 3).clone().requires_grad_();
    const Tensor output = norm(input);
    (output * output.detach().cos()).sum().backward();
    return std::vector<Tensor>{output.detach(), input.grad()};
  };
  const auto options = GENERATE(nn::BatchNormOptions(3), nn::BatchNormOptions(3).affine(false),
                                nn::BatchNormOptions(3).track_running_stats(false));
  std::array<std::vector<Tensor>, 2> by_formula, by_kernels;
  const auto into = [&](auto& results) {
    run_ranks_to_success(2, [&](const Group& group) {
      results[static_cast<std::size_t>(group.rank())] = train(options, group);
    });
  };
  into(by_formula);
  const BatchNormKernels kernels;
  into(by_kernels);
  for (const std::size_t rank : {0U, 1U}) {
    for (const std::size_t what : {0U, 1U}) {
      CHECK(by_kernels[rank][what].allclose(by_formula[rank][what], 1e-10, 1e-10));
      CHECK_FALSE(by_kernels[rank][what].equal(by_formula[rank][what]));  // they sum in another order
    }
  }
}

// torch.nn.SyncBatchNorm: need_sync = bn_training and self.training.
TEST_CASE("without running statistics an evaluation normalizes each rank's own batch") {
  run_ranks_to_success(2, [](const Group& group) {
    SyncBatchNorm norm(nn::BatchNormOptions(3).track_running_stats(false), group);
    nn::BatchNorm1d reference(nn::BatchNormOptions(3).track_running_stats(false));
    norm->eval();
    reference->eval();
    const Tensor input = torch::full({4, 3}, group.rank() + 1.0) + torch::eye(4).narrow(1, 0, 3);
    CHECK_IN_RANK(norm(input).equal(reference(input)));
  });
}

TEST_CASE("without a group it is torch's batch norm, bit for bit") {
  torch::manual_seed(0);
  SyncBatchNorm norm(3);
  nn::BatchNorm2d reference(3);
  for (int step = 0; step < 3; ++step) {
    const Tensor input = torch::randn({4, 3, 5, 5});
    const Tensor mine = input.clone().requires_grad_(), theirs = input.clone().requires_grad_();
    const Tensor output = norm(mine), expected = reference(theirs);
    CHECK(output.equal(expected));
    output.square().sum().backward();
    expected.square().sum().backward();
    CHECK(mine.grad().equal(theirs.grad()));
  }
  CHECK(norm->running_mean.equal(reference->running_mean));
  CHECK(norm->running_var.equal(reference->running_var));
  CHECK(norm->num_batches_tracked.equal(reference->num_batches_tracked));
  norm->eval();
  reference->eval();
  const Tensor input = torch::randn({2, 3, 5, 5});
  CHECK(norm(input).equal(reference(input)));
}

// A Sequential cannot be put into another one as it is: its forward is a template.
struct Layers final : nn::SequentialImpl {
  using nn::SequentialImpl::SequentialImpl;
  Tensor forward(const Tensor& input) { return nn::SequentialImpl::forward(input); }
};

// A batch norm in a Sequential that a module owns, and one that waits for a group.
struct Block : nn::Module {
  Block() {
    layers = register_module("layers", nn::Sequential(nn::Conv2d(3, 3, 1), nn::BatchNorm2d(3)));
    norm = register_module("norm", SyncBatchNorm(3));
  }
  Tensor forward(const Tensor& input) { return norm(layers->forward(input)); }
  nn::Sequential layers{nullptr};
  SyncBatchNorm norm{nullptr};
};

nn::Sequential nested_model() {
  return nn::Sequential(Layers(nn::Conv2d(3, 3, 1), nn::BatchNorm2d(3)), Block(), nn::Flatten(),
                        nn::BatchNorm1d(3 * 4));
}

std::string printed(const nn::Module& model) {
  std::ostringstream text;
  text << model;
  return text.str();
}

TEST_CASE("every batch norm at any depth of a model is converted, with its tensors") {
  run_ranks_to_success(2, [](const Group& group) {
    auto model = nested_model();
    const auto before = model->named_parameters();
    model->eval();
    auto converted = convert_sync_batchnorm(model, group);
    CHECK_IN_RANK(converted.ptr() == model.ptr());
    const std::string text = printed(*model);
    CHECK_IN_RANK(text.find("torch::nn::BatchNorm") == std::string::npos);
    std::size_t count = 0;
    for (std::size_t at = text.find("ranks=2"); at != std::string::npos; at = text.find("ranks=2", at + 1))
      ++count;
    CHECK_IN_RANK(count == 4);
    const auto after = model->named_parameters();
    CHECK_IN_RANK(after.keys() == before.keys());
    for (const auto& parameter : before) CHECK_IN_RANK(after[parameter.key()].is_same(parameter.value()));
    for (const auto& module : model->modules(false)) CHECK_IN_RANK(!module->is_training());
  });
}

TEST_CASE("a converted model trains like one process with the whole batch") {
  const auto kernels = maybe_with_kernels();
  torch::manual_seed(1);
  const Tensor whole = torch::randn({6, 3, 2, 2}, torch::kDouble);
  auto reference = nested_model();
  reference->to(torch::kDouble);
  const auto initial = reference->parameters();
  std::vector<Tensor> values;
  for (const auto& parameter : initial) values.push_back(parameter.detach().clone());
  reference->forward(whole).square().mean().backward();
  run_ranks_to_success(2, [&](const Group& group) {
    auto model = nested_model();
    model->to(torch::kDouble);
    {
      const torch::NoGradGuard no_grad;
      const auto parameters = model->parameters();
      for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(values[i]);
    }
    DistributedDataParallel ddp(convert_sync_batchnorm(model, group), group.process_group());
    ddp(whole.narrow(0, 3 * group.rank(), 3)).square().mean().backward();
    const auto parameters = model->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      CHECK_IN_RANK(parameters[i].grad().allclose(initial[i].grad(), 1e-9, 1e-9));
    }
  });
}

TEST_CASE("a converted model goes on over another group, converted once more") {
  run_ranks_to_success(3, [](const Group& group) {
    auto model = convert_sync_batchnorm(nested_model(), group);
    DistributedDataParallel ddp(model, group.process_group());
    const auto parameters = ddp.parameters();
    const auto step = [&] { ddp(torch::full({2, 3, 2, 2}, group.rank() + 1.0)).square().sum().backward(); };
    step();
    const Group two = new_group(group, {0, 2});
    ddp.update_process_group(two);
    if (!two.is_member()) return;
    convert_sync_batchnorm(ddp.module(), two);
    CHECK_IN_RANK(printed(*model).find("ranks=3") == std::string::npos);
    CHECK_IN_RANK(printed(*model).find("ranks=2") != std::string::npos);
    step();
    step();
    for (const torch::Tensor& parameter : parameters) {
      const std::vector<Tensor> all = all_gather(two, parameter.grad());
      CHECK_IN_RANK(all[0].equal(all[1]));
    }
  });
}

TEST_CASE("a batch norm used in two places stays one") {
  run_ranks_to_success(1, [](const Group& group) {
    const nn::BatchNorm1d norm(3);
    const auto inner = std::make_shared<Layers>(norm);
    nn::Sequential model(norm, inner, std::make_shared<Layers>(norm));
    convert_sync_batchnorm(*model, group);
    CHECK_IN_RANK(model->ptr(0) == inner->ptr(0));
    CHECK_IN_RANK(model->ptr(0)->as<SyncBatchNormImpl>() != nullptr);
    model->forward(torch::randn({4, 3}));
    CHECK_IN_RANK(norm->num_batches_tracked.item<std::int64_t>() == 3);
  });
}

TEST_CASE("batch norms that C++ cannot reach are named, and nothing is changed") {
  struct Hidden : nn::Module {
    Hidden() { register_module("norm", norm); }
    Tensor forward(const Tensor& input) { return norm(input); }
    nn::BatchNorm2d norm{3};
  };
  nn::Sequential model(nn::BatchNorm2d(3), Hidden(), Layers(Hidden()));
  const auto failures = run_ranks(1, [&](const Group& group) { convert_sync_batchnorm(*model, group); });
  CHECK(message_of(failures[0]) ==
        "convert_sync_batchnorm: cannot exchange 1.norm, 2.0.norm: C++ cannot reach a member of a module; "
        "declare it "
        "as ddprun::SyncBatchNorm, or put it into a Sequential");
  CHECK(model->ptr(0)->as<nn::BatchNorm2dImpl>() != nullptr);

  nn::BatchNorm2d alone(3);
  const auto lone = run_ranks(1, [&](const Group& group) { convert_sync_batchnorm(*alone, group); });
  CHECK(message_of(lone[0]).find("cannot exchange the model itself: ") != std::string::npos);
  run_ranks_to_success(1, [&](const Group& group) {
    CHECK_IN_RANK(convert_sync_batchnorm(alone, group)->weight.is_same(alone->weight));
  });
}

TEST_CASE("a batch of one value per channel is refused where there is no other rank, as in Python") {
  const std::string refusal =
      "SyncBatchNorm: expected more than 1 value per channel when training, got input size [1, 3, 1]; give "
      "it a "
      "larger batch";
  const Tensor one = torch::ones({1, 3, 1});
  SyncBatchNorm norm(3);
  CHECK_THROWS_WITH(norm(one), refusal);
  CHECK(norm(torch::ones({1, 3, 2})).size(0) == 1);
  norm->eval();
  CHECK(norm(one).size(0) == 1);
  const auto failures = run_ranks(1, [&](const Group& group) { SyncBatchNorm(3, group)->forward(one); });
  CHECK(message_of(failures[0]) == refusal);
  run_ranks_to_success(2, [&](const Group& group) {
    SyncBatchNorm together(3, group);
    CHECK_IN_RANK(together(one + group.rank()).isfinite().all().item<bool>());
  });
}

TEST_CASE("an input of the wrong shape is refused") {
  SyncBatchNorm norm(3);
  CHECK_THROWS_WITH(norm(torch::ones({4, 2})),
                    "SyncBatchNorm: the input has shape [4, 2], expected [N, 3, …]");
}

}  // namespace
}  // namespace ddprun
