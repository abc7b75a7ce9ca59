#include "tests/integration/runtime/in_threads.h"
#include "tests/support/catch.h"
#include <ddprun/checkpoint.h>
#include <ddprun/comm_hooks.h>
#include <ddprun/model_averager.h>

namespace ddprun {
namespace {

using testing::run_ranks_to_success;

TEST_CASE("c10d's own hooks go by their names, and are the one hook") {
  run_ranks_to_success(2, [](const Group& group) {
    DistributedDataParallel ddp(torch::nn::Linear(1, 1), group.process_group());
    ddp.register_builtin_comm_hook(BuiltinCommHookType::FP16_COMPRESS);
    CHECK_IN_RANK(ddp.logging_data().strs_map["comm_hook"] == "BuiltinCommHookType.FP16_COMPRESS");
    try {
      ddp.register_builtin_comm_hook(BuiltinCommHookType::ALLREDUCE);
      CHECK_IN_RANK(!"a second hook was taken");
    } catch (const Exception& error) {
      CHECK_IN_RANK(std::string(error.what()).find("registered already") != std::string::npos);
    }
    (ddp(torch::ones({1, 1})) * (group.rank() + 1)).sum().backward();
    CHECK_IN_RANK(ddp.module()->bias.grad().item<float>() == 1.5F);
  });
}

TEST_CASE("the noop hook leaves each rank its own gradients") {
  run_ranks_to_success(2, [](const Group& group) {
    DistributedDataParallel ddp(torch::nn::Linear(1, 1), group.process_group());
    ddp.register_comm_hook(noop_hook());
    (ddp(torch::ones({1, 1})) * (group.rank() + 1)).sum().backward();
    CHECK_IN_RANK(ddp.module()->bias.grad().item<float>() == static_cast<float>(group.rank() + 1));
  });
}

// In float64 as well, in which there are no steps to send.
TEST_CASE("quantization keeps the gradients' dtype, and an error of half a step for each rank") {
  run_ranks_to_success(3, [](const Group& group) {
    for (const CommHook& hook :
         {quantization_per_tensor_hook(group), quantization_per_channel_hook(group, 8)}) {
      torch::nn::Linear model(20, 1);
      model->to(torch::kFloat64);
      DistributedDataParallel ddp(model, group.process_group());
      ddp.register_comm_hook(hook);
      const auto gradient = torch::linspace(-1, 1, 20, torch::kFloat64).view({1, 20});
      (ddp(gradient) * (group.rank() + 1)).sum().backward();
      CHECK_IN_RANK(model->weight.grad().scalar_type() == torch::kFloat64);
      CHECK_IN_RANK((model->weight.grad() - 2 * gradient).abs().max().item<double>() < 3 * 2.0 / 255);
    }
  });
}

TEST_CASE("a quantization hook wants channels of some size") {
  run_ranks_to_success(1, [](const Group& group) {
    CHECK_THROWS_WITH(quantization_per_channel_hook(group, 0),
                      "quantization hook: channel_size is 0; expected at least 1");
  });
}

TEST_CASE("an averager counts steps, also over a checkpoint, and leaves out what has no gradient") {
  run_ranks_to_success(2, [](const Group& group) {
    const auto trained = torch::full({2}, static_cast<double>(group.rank()), torch::requires_grad());
    const auto frozen = torch::full({2}, static_cast<double>(group.rank()), torch::requires_grad());
    trained.mutable_grad() = torch::zeros({2});
    FusedSgd local({trained, frozen}, {.lr = 0.1});
    PeriodicModelAverager averager(group, {.period = 3, .warmup_steps = 1});
    PostLocalSgdOptimizer optimizer(local, averager);
    optimizer.step();
    CHECK_IN_RANK(trained[0].item<float>() == static_cast<float>(group.rank()));
    const PtDict saved = state_dict(optimizer);
    CHECK_IN_RANK(saved.at("step").as_int() == 1);
    optimizer.step();
    CHECK_IN_RANK(trained[0].item<float>() == 0.5F);
    CHECK_IN_RANK(frozen[0].item<float>() == static_cast<float>(group.rank()));
    averager.set_step(7);
    load_state_dict(optimizer, saved);
    CHECK_IN_RANK(averager.step() == 1);
    load_state_dict(optimizer, state_dict(local));
    CHECK_IN_RANK(averager.step() == 0);
  });
}

TEST_CASE("averagers refuse periods and levels that cannot be") {
  run_ranks_to_success(2, [](const Group& group) {
    const auto message = [&](const std::vector<HierarchicalModelAverager::Level>& levels) -> std::string {
      try {
        HierarchicalModelAverager averager(group, levels);
        return {};
      } catch (const Exception& error) {
        return error.what();
      }
    };
    CHECK_IN_RANK(message({}) == "model averager: no levels are given; expected at least the whole group");
    CHECK_IN_RANK(message({{2, 1}, {2, 2}}) ==
                  "model averager: a level of period 2 follows one of 2; expected rising periods from 1 on");
    CHECK_IN_RANK(message({{2, 3}, {4, 2}}) ==
                  "model averager: a level has groups of 3 ranks; expected a divisor of all 2");
    CHECK_IN_RANK(message({{2, 1}}) ==
                  "model averager: the last level has groups of 1 ranks; expected all 2");
    try {
      PeriodicModelAverager averager(group, {.period = 0});
      CHECK_IN_RANK(!"a period of 0 was taken");
    } catch (const Exception& error) {
      CHECK_IN_RANK(std::string(error.what()) == "model averager: the period is 0; expected at least 1");
    }
  });
}

}  // namespace
}  // namespace ddprun
