#include "tests/integration/runtime/in_threads.h"
#include "tests/support/catch.h"
#include <ddprun/comm_hooks.h>

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

}  // namespace
}  // namespace ddprun
