#include "tests/integration/runtime/in_threads.h"
#include "tests/support/catch.h"
#include <ddprun/comm_hooks.h>
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/model_averager.h>
#include <ddprun/optim.h>

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
