// Replicas that join a group later than others (update_process_group), and the buckets that all have then.
#include "tests/integration/runtime/in_threads.h"
#include "tests/support/catch.h"
#include <ddprun/distributed_data_parallel.h>

#include <torch/nn/functional.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <optional>
#include <utility>

namespace ddprun {
namespace {

using testing::message_of;
using testing::run_ranks;
using testing::run_ranks_to_success;

using Replica = DistributedDataParallel<torch::nn::Sequential>;

/// Four parameters of one element each, whose gradients for an input of 1 are 5, 5, 3 and 1.
torch::nn::Sequential a_chain() {
  torch::nn::Sequential chain(torch::nn::Linear(1, 1), torch::nn::Linear(1, 1));
  const torch::NoGradGuard no_grad;
  const std::vector<double> values = {2, 1, 5, 0.5};
  for (std::size_t i = 0; i < values.size(); ++i) chain->parameters()[i].fill_(values[i]);
  return chain;
}

std::vector<double> averaged_gradients(Replica& ddp, const Group& group) {
  ddp.module()->zero_grad();
  (ddp(torch::ones({1, 1})) * (group.rank() + 1)).sum().backward();
  std::vector<double> gradients;
  for (const torch::Tensor& parameter : ddp.parameters())
    gradients.push_back(parameter.grad().item<double>());
  return gradients;
}

const std::vector<double> kMeanOfTwo = {7.5, 7.5, 4.5, 1.5};

/// A replica of `group`, whose `trained_rank` made two steps alone before.
Replica after_growth(const Group& group, int trained_rank, const torch::nn::Sequential& model,
                     DistributedDataParallelOptions options = {}) {
  const Group alone = new_group(group, {trained_rank});
  options.init_sync = false;
  if (!alone.is_member()) return {model, group.process_group(), options};
  Replica ddp(model, alone.process_group(), options);
  for (int step = 0; step < 2; ++step) averaged_gradients(ddp, alone);
  static_cast<void>(ddp.bucket_order());  // makes them anew, as the next forward would
  ddp.update_process_group(group);
  return ddp;
}

TEST_CASE("a bucket order from before the first step is no order to keep") {
  const bool is_static = GENERATE(false, true);
  const bool init_sync = GENERATE(false, true);
  run_ranks_to_success(2, [&](const Group& group) {
    Replica ddp(a_chain(), group.process_group(), {.static_graph = is_static, .init_sync = init_sync});
    const BucketOrder first = ddp.bucket_order();
    ddp.set_bucket_order(first);
    for (int step = 0; step < 3; ++step) averaged_gradients(ddp, group);
    CHECK_IN_RANK(ddp.bucket_order() != first);
  });
}

TEST_CASE("without init_sync one rank may look at its model before all train") {
  const auto [has_buffers, is_mixed] =
      GENERATE(std::pair(false, false), std::pair(true, false), std::pair(false, true));
  run_ranks_to_success(2, [has_buffers = has_buffers, is_mixed = is_mixed](const Group& group) {
    torch::nn::Sequential model(torch::nn::Linear(1, 1));
    if (has_buffers) model->push_back(torch::nn::BatchNorm1d(1));
    DistributedDataParallelOptions options{.init_sync = false};
    if (is_mixed) options.mixed_precision = MixedPrecision{.param_dtype = at::kBFloat16};
    Replica ddp(model, group.process_group(), options);
    if (group.rank() == 0 && has_buffers) {
      const torch::NoGradGuard no_grad;
      ddp(torch::ones({2, 1}));
    } else if (group.rank() == 0) {
      const auto guard = ddp.no_sync();
      ddp(torch::ones({2, 1}));
    }
    for (int step = 0; step < 2; ++step) {
      model->zero_grad();
      ddp(torch::full({2, 1}, group.rank() + 1.0)).sum().backward();
    }
    const at::Tensor gradient = model[0]->as<torch::nn::Linear>()->weight.grad();
    CHECK_IN_RANK(all_gather(group, gradient)[0].equal(all_gather(group, gradient)[1]));
    if (!has_buffers) CHECK_IN_RANK(gradient.item<float>() == 3);
  });
}

TEST_CASE("a job that grew goes on with the bucket order that all its ranks set, whichever of them had it") {
  run_ranks_to_success(2, [](const Group& group) {
    Replica ddp = after_growth(group, 0, a_chain());
    const BucketOrder order = {{3, 2, 1, 0}};  // in which the gradients became ready
    if (group.rank() == 0) CHECK_IN_RANK(ddp.bucket_order() == order);
    ddp.set_bucket_order(order);
    for (int step = 0; step < 3; ++step) CHECK_IN_RANK(averaged_gradients(ddp, group) == kMeanOfTwo);
    CHECK_IN_RANK(ddp.bucket_order() == order);
  });
}

TEST_CASE("a bucket order that a job keeps is kept when it grows, where all set it again") {
  run_ranks_to_success(2, [](const Group& group) {
    const BucketOrder each_alone = {{0}, {1}, {2}, {3}};
    Replica ddp = after_growth(group, 0, a_chain());
    if (group.rank() == 0) ddp.set_bucket_order(each_alone);
    ddp.update_process_group(group);
    ddp.set_bucket_order(each_alone);
    for (int step = 0; step < 3; ++step) CHECK_IN_RANK(averaged_gradients(ddp, group) == kMeanOfTwo);
    CHECK_IN_RANK(ddp.bucket_order() == each_alone);
  });
}

TEST_CASE("a job of several dtypes in mixed precision grows") {
  const int trained_rank = GENERATE(0, 1);
  run_ranks_to_success(2, [&](const Group& group) {
    torch::nn::Sequential model = a_chain();
    model[1]->as<torch::nn::Linear>()->to(torch::kBFloat16);
    Replica ddp = after_growth(group, trained_rank, model,
                               {.mixed_precision = MixedPrecision{.param_dtype = torch::kBFloat16}});
    for (int step = 0; step < 3; ++step) CHECK_IN_RANK(averaged_gradients(ddp, group) == kMeanOfTwo);
  });
}

TEST_CASE("the first forward of a job that grew may be one of inference") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Sequential model(torch::nn::BatchNorm1d(1), torch::nn::Linear(1, 1), torch::nn::Linear(1, 1));
    model->eval();
    Replica ddp = after_growth(group, 0, model);
    {
      const c10::InferenceMode inference;
      ddp(torch::ones({1, 1}));
    }
    model->zero_grad();
    ddp(torch::ones({1, 1})).sum().backward();
    CHECK_IN_RANK(model->parameters().back().grad().item<float>() == 1);
  });
}

TEST_CASE("in the first step of a job that grew each gradient is averaged with the same parameter's") {
  const int trained_rank = GENERATE(0, 1);
  run_ranks_to_success(2, [&](const Group& group) {
    Replica ddp = after_growth(group, trained_rank, a_chain());
    for (int step = 0; step < 3; ++step) CHECK_IN_RANK(averaged_gradients(ddp, group) == kMeanOfTwo);
  });
}

TEST_CASE("where one rank of a job that grew sets a bucket order, rank 0's is everyone's") {
  const int setting_rank = GENERATE(0, 1);
  run_ranks_to_success(2, [&](const Group& group) {
    Replica ddp = after_growth(group, 0, a_chain());
    const BucketOrder each_alone = {{0}, {1}, {2}, {3}};
    if (group.rank() == setting_rank) ddp.set_bucket_order(each_alone);
    for (int step = 0; step < 3; ++step) CHECK_IN_RANK(averaged_gradients(ddp, group) == kMeanOfTwo);
    CHECK_IN_RANK((ddp.bucket_order() == each_alone) == (setting_rank == 0));
  });
}

TEST_CASE("a member that evaluated last sends its buffers to those that are new") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Sequential model(torch::nn::BatchNorm1d(1), torch::nn::Linear(1, 1));
    const torch::Tensor mean = model->named_buffers()["0.running_mean"];
    const Group alone = new_group(group, {0});
    std::optional<Replica> ddp;
    if (alone.is_member()) {
      ddp.emplace(model, alone.process_group(), DistributedDataParallelOptions{.init_sync = false});
      const torch::NoGradGuard no_grad;
      (*ddp)(torch::ones({2, 1}));
      mean.fill_(8);
      ddp->update_process_group(group);
    } else {
      ddp.emplace(model, group.process_group(), DistributedDataParallelOptions{.init_sync = false});
    }
    (*ddp)(torch::zeros({2, 1})).sum().backward();
    CHECK_IN_RANK(std::abs(mean.item<double>() - 7.2) < 1e-6);
  });
}

TEST_CASE("a replica of another model is refused by all, in the first step of the group") {
  const auto failures = run_ranks(2, [](const Group& group) {
    torch::nn::Sequential model = a_chain();
    if (group.rank() == 1) model->push_back(torch::nn::Linear(1, 1));
    Replica ddp = after_growth(group, 0, model);
    averaged_gradients(ddp, group);
  });
  CHECK(message_of(failures[0]) ==
        "DistributedDataParallel: the ranks have different models: rank 1 has 6 trainable parameters, rank 0 "
        "has 4; build the same model on every rank");
  CHECK(message_of(failures[1]) == message_of(failures[0]));
}

TEST_CASE(
    "a replica with other delayed parameters is refused by all, also under no_sync, where they are sent") {
  const bool is_all_delayed = GENERATE(false, true);
  const bool has_no_sync = GENERATE(false, true);
  const auto failures = run_ranks(2, [&](const Group& group) {
    const std::int64_t own = group.rank() + 1, other = 2 - group.rank();
    const torch::nn::Sequential model(
        torch::nn::Linear(torch::nn::LinearOptions(own, other).bias(false)),
        torch::nn::Functional([](const torch::Tensor& hidden) { return hidden.sum(1, true); }),
        torch::nn::Linear(1, 1));
    DistributedDataParallelOptions options{.init_sync = false, .delay_all_reduce = {"0.weight"}};
    if (is_all_delayed) options.delay_all_reduce = {"0.weight", "2.weight", "2.bias"};
    options.reduce_delayed_when_ready = "0.weight";
    Replica ddp(model, group.process_group(), options);
    const auto step = [&] { ddp(torch::ones({1, own})).sum().backward(); };
    if (!has_no_sync) return step();
    const auto guard = ddp.no_sync();
    step();
  });
  CHECK(
      message_of(failures[0]) ==
      "DistributedDataParallel: the ranks have different models: parameter 0 (0.weight) is Float [1, 2] "
      "strides [2, 1] on rank 1 and Float [2, 1] strides [1, 1] on rank 0 (there named 0.weight); build the "
      "same model on every rank");
  CHECK(message_of(failures[1]) == message_of(failures[0]));
}

TEST_CASE("with static_graph a rank that is new cannot join those that know the graph") {
  const auto failures = run_ranks(2, [](const Group& group) {
    Replica ddp = after_growth(group, 1, a_chain(), {.static_graph = true});
    averaged_gradients(ddp, group);
  });
  CHECK(message_of(failures[0]) ==
        "DistributedDataParallel: static_graph learns the graph in a replica's first backward, which ranks 1 "
        "of the group have made and the others have not; construct it anew on all of them");
  CHECK(message_of(failures[1]) == message_of(failures[0]));
}

// A program freezes one part of its model for a step of another part.
TEST_CASE("parameters that are frozen at the moment are no other model") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Sequential model = a_chain();
    Replica ddp = after_growth(group, 0, model, {.find_unused_parameters = true});
    if (group.rank() == 1) model->parameters()[0].set_requires_grad(false);
    model->zero_grad();
    ddp(torch::ones({1, 1})).sum().backward();
    CHECK_IN_RANK(model->parameters()[3].grad().item<double>() == 1);
  });
}

}  // namespace
}  // namespace ddprun
