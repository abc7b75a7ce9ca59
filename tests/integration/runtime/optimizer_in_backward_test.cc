#include "tests/integration/runtime/in_threads.h"
#include "tests/support/catch.h"
#include <ddprun/comm_hooks.h>
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/model_averager.h>
#include <ddprun/optim.h>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

namespace ddprun {
namespace {

using testing::message_of;
using testing::run_ranks;
using testing::run_ranks_to_success;

TEST_CASE("with the optimizer in the backward, parameters are updated and gradients gone when it returns") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    DistributedDataParallel ddp(model, group.process_group());
    FusedSgd optimizer(ddp.parameters(), {.lr = 1});
    ddp.apply_optimizer_in_backward(optimizer);
    for (int step = 0; step < 3; ++step) {
      const float before = model->bias.item<float>();
      (ddp(torch::ones({1, 1})) * (group.rank() + 1)).sum().backward();
      CHECK_IN_RANK(model->bias.item<float>() == before - 1.5F);
      CHECK_IN_RANK(!model->bias.grad().defined());
      CHECK_IN_RANK(!model->weight.grad().defined());
    }
  });
}

// The reducer remembers which parameters were in a bucket.
TEST_CASE(
    "buckets that change later hold other parameters, for hooks and for the optimizer in the backward") {
  run_ranks_to_success(2, [](const Group& group) {
    const auto make = [] {
      torch::nn::Sequential model(torch::nn::Linear(2, 2), torch::nn::Linear(2, 2));
      const torch::NoGradGuard no_grad;
      for (const at::Tensor& parameter : model->parameters()) parameter.fill_(0.5).view(-1)[0] += 0.25;
      return model;
    };
    const auto input = torch::ones({1, 2}) * (group.rank() + 1);
    const auto model = make();
    DistributedDataParallel ddp(model, group.process_group());
    FusedSgd optimizer(ddp.parameters(), {.lr = 0.1});
    ddp.apply_optimizer_in_backward(optimizer);
    const auto reference = make();
    DistributedDataParallel plain(reference, group.process_group());
    FusedSgd plain_optimizer(plain.parameters(), {.lr = 0.1});
    std::vector<std::vector<const void*>> seen;
    const auto hooked_model = make();
    DistributedDataParallel hooked(hooked_model, group.process_group());
    hooked.register_comm_hook([&, average = allreduce_hook(group)](c10d::GradBucket& bucket) {
      auto& parameters = seen.emplace_back();
      for (const at::Tensor& parameter : bucket.getParameters())
        parameters.push_back(parameter.unsafeGetTensorImpl());
      return average(bucket);
    });
    for (int step = 0; step < 6; ++step) {
      if (step == 3) {
        const BucketOrder halves = {{0, 1}, {2, 3}};
        ddp.set_bucket_order(halves);
        hooked.set_bucket_order(halves);
        seen.clear();
      }
      ddp(input).pow(2).sum().backward();
      plain(input).pow(2).sum().backward();
      plain_optimizer.step();
      plain_optimizer.zero_grad();
      hooked(input).pow(2).sum().backward();
    }
    for (std::size_t i = 0; i < ddp.parameters().size(); ++i)
      CHECK_IN_RANK(torch::equal(ddp.parameters()[i], plain.parameters()[i]));
    const auto impl = [&](std::size_t i) -> const void* {
      return hooked.parameters()[i].unsafeGetTensorImpl();
    };
    CHECK_IN_RANK(seen.at(0) == std::vector<const void*>{impl(0), impl(1)});
    CHECK_IN_RANK(seen.at(1) == std::vector<const void*>{impl(2), impl(3)});
  });
}

TEST_CASE("under join, ranks without input go on updating") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    DistributedDataParallel ddp(model, group.process_group());
    const float before = model->bias.item<float>();
    FusedSgd optimizer(ddp.parameters(), {.lr = 1});
    ddp.apply_optimizer_in_backward(optimizer);
    ddp.join([&] {
      for (int step = 0; step <= group.rank(); ++step) ddp(torch::ones({1, 1})).sum().backward();
    });
    CHECK_IN_RANK(model->bias.item<float>() == before - 1.5F);
  });
}

TEST_CASE("after update_process_group gradients are divided by the new group's size") {
  run_ranks_to_success(3, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    DistributedDataParallel ddp(model, group.process_group());
    FusedSgd optimizer(ddp.parameters(), {.lr = 1});
    ddp.apply_optimizer_in_backward(optimizer);
    const Group two = new_group(group, {0, 1});
    ddp.update_process_group(two);
    if (!two.is_member()) return;
    const float before = model->bias.item<float>();
    (ddp(torch::ones({1, 1})) * (group.rank() + 1)).sum().backward();
    CHECK_IN_RANK(model->bias.item<float>() == before - 1.5F);
  });
}

// Stands for a rank that is lost in the middle of a backward.
struct Breaks : torch::autograd::Function<Breaks> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& input,
                               bool breaks) {
    context->saved_data["breaks"] = breaks;
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    if (context->saved_data["breaks"].toBool()) throw std::runtime_error("broken off");
    return {gradients[0], torch::Tensor()};
  }
};

struct TwoLayers : torch::nn::Module {
  TwoLayers() {
    first = register_module("first", torch::nn::Linear(1, 1));
    second = register_module("second", torch::nn::Linear(1, 1));
  }
  torch::Tensor forward(const torch::Tensor& input, bool breaks) {
    return second(Breaks::apply(first(input), breaks));
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
};

TEST_CASE("after update_process_group nothing is left of a backward that failed, with the optimizer in it") {
  run_ranks_to_success(3, [](const Group& group) {
    const auto model = std::make_shared<TwoLayers>();
    DistributedDataParallel ddp(model, group.process_group());
    FusedSgd optimizer(ddp.parameters(), {.lr = 1});
    ddp.apply_optimizer_in_backward(optimizer);
    const auto train = [&](bool breaks) {
      (ddp(torch::ones({1, 1}), breaks) * (group.rank() + 1)).sum().backward();
    };
    train(false);
    std::string words;
    try {
      train(true);
    } catch (const std::exception& error) {
      words = error.what();
    }
    CHECK_IN_RANK(words.find("broken off") != std::string::npos);
    const Group two = new_group(group, {0, 1});
    ddp.update_process_group(two);
    CHECK_IN_RANK(!model->second->bias.grad().defined());
    if (!two.is_member()) return;
    const float before = model->second->bias.item<float>();
    train(false);
    CHECK_IN_RANK(model->second->bias.item<float>() == Approx(before - 1.5F));
  });
}

TEST_CASE("join by the ranks that have input is refused with the optimizer in the backward") {
  const auto failures = run_ranks(1, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    DistributedDataParallel ddp(model, group.process_group());
    FusedSgd optimizer(ddp.parameters(), {.lr = 1});
    ddp.apply_optimizer_in_backward(optimizer);
    ddp.join([] {}, {.divide_by_initial_world_size = false});
  });
  CHECK(message_of(failures[0]) ==
        "DistributedDataParallel: the optimizer in the backward divides gradients by the size of the group; "
        "leave JoinOptions::divide_by_initial_world_size on");
}

TEST_CASE("an optimizer that cannot be in the backward is refused with the reason") {
  run_ranks_to_success(1, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    DistributedDataParallel ddp(model, group.process_group());
    const auto message = [&](FusedOptimizer& optimizer) -> std::string {
      try {
        ddp.apply_optimizer_in_backward(optimizer);
        return {};
      } catch (const Exception& error) {
        return error.what();
      }
    };
    FusedSgd few({model->weight}, {.lr = 1});
    CHECK(message(few) ==
          "DistributedDataParallel: optimizer in backward: parameter \"bias\" is not the optimizer's, and "
          "would "
          "never be updated");
    FusedSgd more({model->weight, model->bias, torch::ones({1}, torch::requires_grad())}, {.lr = 1});
    CHECK(message(more) ==
          "DistributedDataParallel: optimizer in backward: 1 of the optimizer's 3 parameters are not reduced "
          "in "
          "buckets, and would never be updated");
    FusedSgd local(ddp.parameters(), {.lr = 1});
    PeriodicModelAverager averager(group, {});
    PostLocalSgdOptimizer wrapped(local, averager);
    CHECK(
        message(wrapped) ==
        "DistributedDataParallel: optimizer in backward: this one steps all its parameters at once; give the "
        "one that it wraps");
    CHECK_THROWS_WITH(wrapped.step_some({model->weight}),
                      "optimizer: this SGD steps all its parameters at once, not some");
    ddp.register_comm_hook(noop_hook());
    CHECK(message(local) ==
          "DistributedDataParallel: a communication hook is registered already; there can be one");
  });
}

}  // namespace
}  // namespace ddprun
