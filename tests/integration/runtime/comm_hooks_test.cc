#include "tests/integration/runtime/in_threads.h"
#include "tests/support/catch.h"
#include "tests/support/launched.h"
#include <ddprun/checkpoint.h>
#include <ddprun/comm_hooks.h>
#include <ddprun/grad_scaler.h>
#include <ddprun/model_averager.h>
#include <ddprun/pt_file.h>

#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

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

// A model with matrices, and all that moves in its training.
struct LowRankRun {
  explicit LowRankRun(const Group& group, CommHook (*hook)(PowerSgdState))
      : state(group, {.start_step = 2}), ddp(model, group.process_group()) {
    ddp.register_comm_hook(hook(state));
  }

  void step(const Group& group, int number) {
    const auto input = torch::sin(torch::arange(12 * 4).view({4, 12}) * (number + 1) * (group.rank() + 2));
    ddp(input).pow(2).sum().backward();
    optimizer.step();
    model->zero_grad();
  }

  PtDict saved() { return state_dict(*model); }

  torch::nn::Sequential model = [] {
    torch::manual_seed(3);
    return torch::nn::Sequential(torch::nn::Linear(12, 20), torch::nn::ReLU(), torch::nn::Linear(20, 16));
  }();
  PowerSgdState state;
  DistributedDataParallel<torch::nn::Sequential> ddp;
  FusedSgd optimizer{model->parameters(), {.lr = 0.01}};
};

bool is_equal(const PtDict& a, const PtDict& b) {
  for (const auto& [name, value] : a.entries) {
    if (!torch::equal(value.as_tensor(), b.at(name.as_string()).as_tensor())) return false;
  }
  return true;
}

TEST_CASE("training with PowerSGD goes on from a file as if it had never stopped") {
  const testing::TempDirectory folder;
  for (const auto hook : {power_sgd_hook, batched_power_sgd_hook}) {
    run_ranks_to_success(3, [&](const Group& group) {
      const std::string file = folder.path() + fmt::format("/rank-{}.pt", group.rank());
      LowRankRun whole(group, hook);
      for (int number = 0; number < 5; ++number) whole.step(group, number);
      PtDict saved;
      saved.set("model", whole.saved());
      saved.set("hook", state_dict(whole.state));
      save_pt(file, saved);
      const BucketOrder buckets = whole.ddp.bucket_order();
      for (int number = 5; number < 9; ++number) whole.step(group, number);

      const auto ends_equal = [&](bool with_state) {
        LowRankRun rest(group, hook);
        const PtValue loaded = load_pt(file);
        load_state_dict(*rest.model, loaded.as_dict().at("model").as_dict());
        rest.ddp.set_bucket_order(buckets);
        if (with_state) load_state_dict(rest.state, loaded.as_dict().at("hook").as_dict());
        for (int number = 5; number < 9; ++number) rest.step(group, number);
        return is_equal(rest.saved(), whole.saved());
      };
      CHECK_IN_RANK(ends_equal(true));
      CHECK_IN_RANK(!ends_equal(false));
    });
  }
}

TEST_CASE(
    "a PowerSGD state that was loaded is the loader's own, and one that cannot be leaves what was there") {
  run_ranks_to_success(1, [](const Group& group) {
    LowRankRun first(group, power_sgd_hook);
    for (int number = 0; number < 4; ++number) first.step(group, number);
    const PtDict saved = state_dict(first.state);
    const auto before = saved.at("q_memory_dict").as_dict().find(0)->as_tensor().clone();
    LowRankRun second(group, power_sgd_hook);
    load_state_dict(second.state, saved);
    for (int number = 4; number < 6; ++number) second.step(group, number);
    CHECK_IN_RANK(torch::equal(saved.at("q_memory_dict").as_dict().find(0)->as_tensor(), before));

    const auto refusal = [&](const char* key, const PtValue& value) -> std::string {
      PtDict wrong;
      for (const auto& [name, entry] : saved.entries)
        wrong.set(name, name.as_string() == key ? value : entry);
      try {
        load_state_dict(second.state, wrong);
        return {};
      } catch (const Exception& error) {
        return error.what();
      }
    };
    CHECK_IN_RANK(
        refusal("rng", "5489 x") ==
        "PowerSGD: \"rng\" is 6 characters of something else; expected the numbers of a Mersenne twister");
    CHECK_IN_RANK(refusal("iter", "many").find("expected an int") != std::string::npos);
    CHECK_IN_RANK(state_dict(second.state).at("iter").as_int() == 6);

    PtDict small;
    small.set(0, torch::ones({7}));
    CHECK_IN_RANK(refusal("error_dict", small).empty());
    try {
      second.step(group, 6);
      CHECK_IN_RANK(!"the state of other buckets was taken");
    } catch (const Exception& error) {
      CHECK_IN_RANK(std::string(error.what()).find("it has 7 elements where this one has 596") !=
                    std::string::npos);
    }
  });
}

struct ScaledLinear : torch::nn::Module {
  ScaledLinear() : scale(register_parameter("scale", torch::ones({}))) {
    layer = register_module("layer", torch::nn::Linear(12, 20));
  }
  torch::Tensor forward(const torch::Tensor& input) { return layer(input) * scale; }
  torch::Tensor scale;
  torch::nn::Linear layer{nullptr};
};

TEST_CASE("PowerSGD averages scalars plainly") {
  run_ranks_to_success(2, [](const Group& group) {
    DistributedDataParallel ddp(std::make_shared<ScaledLinear>(), group.process_group());
    ddp.register_comm_hook(power_sgd_hook({group, {.start_step = 2}}));
    for (int step = 0; step < 4; ++step) {
      ddp.module()->zero_grad();
      (ddp(torch::ones({1, 12})).sum() / ddp.module()->scale * (group.rank() + 1)).backward();
      CHECK_IN_RANK(ddp.module()->layer->bias.grad().defined());
    }
  });
}

TEST_CASE("PowerSGD refuses to begin before the buckets are final, and a rank of none") {
  run_ranks_to_success(1, [](const Group& group) {
    CHECK_THROWS_WITH(
        PowerSgdState(group, {.start_step = 1}),
        "PowerSGD: start_step is 1; with error feedback or warm start it must be above 1, because "
        "DDP rebuilds its buckets after the first step");
    CHECK_THROWS_WITH(PowerSgdState(group, {.matrix_approximation_rank = 0}),
                      "PowerSGD: the approximation rank is 0; expected at least 1");
  });
}

TEST_CASE("a hook goes on over other ranks with its state, where the replica does") {
  run_ranks_to_success(3, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    DistributedDataParallel ddp(model, group.process_group());
    PostLocalSgdState state(group, group, {.start_step = 2, .reduce_over_subgroup = false});
    ddp.register_comm_hook(post_local_sgd_hook(state));
    const auto gradient = [&] {
      model->zero_grad();
      (static_cast<double>(group.rank()) * ddp(torch::ones({1, 1}))).sum().backward();
      return model->bias.grad().item<float>();
    };
    CHECK_IN_RANK(gradient() == 1);
    CHECK_IN_RANK(state.step() == 1);
    const Group rest = new_group(group, {0, 1});
    ddp.update_process_group(rest);
    if (!rest.is_member()) return;
    state.set_groups(rest, rest);
    CHECK_IN_RANK(gradient() == 0.5F);
    CHECK_IN_RANK(gradient() == static_cast<float>(group.rank()));
    CHECK_IN_RANK(state.step() == 2);
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

TEST_CASE("a rank that leaves out its step because of an overflow averages all the same") {
  run_ranks_to_success(2, [](const Group& group) {
    const auto parameter = torch::full({2}, static_cast<double>(group.rank()), torch::requires_grad());
    parameter.mutable_grad() = torch::full({2}, group.rank() == 0 ? 0.0 : INFINITY);
    Rmsprop local({parameter}, {});
    PeriodicModelAverager averager(group, {});
    PostLocalSgdOptimizer optimizer(local, averager);
    GradScaler scaler;
    (void)scaler.scale(torch::ones({}));
    scaler.step(optimizer);
    CHECK_IN_RANK(parameter[0].item<float>() == 0.5F);
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
