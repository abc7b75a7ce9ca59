#include "tests/integration/runtime/heads.h"
#include "tests/support/catch.h"
#include <ddprun/collectives.h>
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/grad_scaler.h>
#include <ddprun/join.h>
#include <ddprun/optim.h>
#include <ddprun/sync_batch_norm.h>
#include <ddprun/zero_redundancy_optimizer.h>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <optional>

namespace ddprun {
namespace {

using testing::message_of;
using testing::messages;
using testing::run_ranks;
using testing::run_ranks_to_success;

// Sums a number over the ranks in each step.
struct Counter final : Joinable {
  explicit Counter(Group given) : group(std::move(given)) {}
  [[nodiscard]] Group join_group() const override { return group; }
  [[nodiscard]] at::Device join_device() const override { return at::kCPU; }
  double step() {
    notify_join();
    return sum(1);
  }
  void shadow_step() override { sum(0); }
  void all_joined(bool last) override { is_last = last; }
  double sum(double mine) const {
    const auto value = torch::full({1}, mine);
    all_reduce(group, value);
    return value.item<double>();
  }
  Group group;
  bool is_last = false;
};

TEST_CASE("joinables of one's own are shadowed, in order, until all ranks are done") {
  run_ranks_to_success(3, [](const Group& group) {
    Counter first(group), second(group);
    join({first, second}, [&] {
      for (int step = 0; step <= group.rank(); ++step) {
        CHECK_IN_RANK(first.step() == 3 - step);
        CHECK_IN_RANK(second.step() == 3 - step);
      }
    });
    CHECK_IN_RANK(first.is_last == (group.rank() == 2));
    CHECK_IN_RANK(second.is_last == (group.rank() == 2));
  });
}

TEST_CASE("a validation within join's loop is the rank's own, also of a model with buffers") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Sequential model(torch::nn::Linear(1, 1), torch::nn::BatchNorm1d(1));
    DistributedDataParallel ddp(model, group.process_group());
    const auto validate = [&] {
      model->eval();
      const torch::NoGradGuard no_grad;
      ddp(torch::ones({2, 1}));
      model->train();
    };
    for (const bool all_validate : {true, false}) {
      ddp.join([&] {
        for (int step = 0; step < 1 + 2 * group.rank(); ++step) {
          ddp(torch::randn({2, 1})).sum().backward();
          if (all_validate || group.rank() == 1) validate();
        }
      });
      // As many collectives as ever.
      ddp(torch::randn({2, 1})).sum().backward();
      ddp(torch::randn({2, 1})).sum().backward();
    }
  });
}

TEST_CASE("join refuses what it cannot shadow, where something would have to be shadowed") {
  struct Setting {
    DistributedDataParallelOptions options{};
    bool with_norm = false;
    bool trains = true;
    JoinOptions join{};
    int first_steps = 1;  // of the rank that has fewer
  };
  const auto message = [](const Setting& setting) {
    const auto failures = run_ranks(2, [&](const Group& group) {
      torch::nn::Sequential model(torch::nn::Linear(2, 2));
      if (setting.with_norm) model->push_back(SyncBatchNorm(2, group));
      model->train(setting.trains);
      DistributedDataParallel ddp(model, group.process_group(), setting.options);
      ddp.join(
          [&] {
            for (int step = 0; step < setting.first_steps + 1 - group.rank(); ++step)
              ddp(torch::randn({4, 2})).pow(2).sum().backward();
          },
          setting.join);
    });
    return message_of(failures[1]);
  };
  CHECK(message({.options = {.find_unused_parameters = true, .skip_all_reduce_unused_params = true}}) ==
        "DistributedDataParallel: join cannot shadow buckets that are left out; leave out option "
        "skip_all_reduce_unused_params");
  CHECK(message({.with_norm = true}) ==
        "DistributedDataParallel: join cannot shadow the collectives of SyncBatchNorm layers that train; use "
        "BatchNorm, or set throw_on_early_termination");
  CHECK(message({.with_norm = true, .trains = false}) == "no exception");
  CHECK(message({.with_norm = true, .join = {.throw_on_early_termination = true}}) ==
        "join: rank 1 has no more input, and was asked to throw then");
  CHECK(message({.options = {.static_graph = true}, .first_steps = 0}) ==
        "DistributedDataParallel: rank 1 has no input at all in join, and static_graph learns the graph of "
        "all steps in "
        "the first; give each rank at least one batch");
  CHECK(message({.options = {.find_unused_parameters = true, .static_graph = true}, .first_steps = 2}) ==
        "no exception");
}

TEST_CASE("join takes SyncBatchNorm layers that train and have nobody to ask") {
  const bool has_group = GENERATE(false, true);
  run_ranks_to_success(2, [&](const Group& group) {
    const Group alone = split_group(group, {{0}, {1}});
    torch::nn::Sequential model(torch::nn::Linear(2, 2));
    model->push_back(SyncBatchNorm(2, has_group ? std::optional<Group>(alone) : std::nullopt));
    DistributedDataParallel ddp(model, group.process_group());
    ddp.join([&] {
      for (int step = 0; step < 2 - group.rank(); ++step) ddp(torch::randn({4, 2})).pow(2).sum().backward();
    });
  });
}

TEST_CASE("join asks of SyncBatchNorm layers what they did in the last step, not what they would do now") {
  const bool trains = GENERATE(false, true);
  const auto failures = run_ranks(2, [&](const Group& group) {
    torch::nn::Sequential model(torch::nn::Linear(2, 2), SyncBatchNorm(2, group));
    model->train(trains);
    DistributedDataParallel ddp(model, group.process_group());
    ddp.join([&] {
      // Rank 1 ends first, and leaves the layers in the other mode.
      for (int step = 0; step < 2 - group.rank(); ++step) ddp(torch::randn({4, 2})).pow(2).sum().backward();
      model->train(!trains);
    });
  });
  CHECK(message_of(failures[1])
            .starts_with(trains ? "DistributedDataParallel: join cannot shadow the collectives of "
                                  "SyncBatchNorm layers that train"
                                : "no exception"));
}

TEST_CASE("join takes a DistributedDataParallel and a ZeroRedundancyOptimizer together") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    DistributedDataParallel ddp(model, group.process_group());
    auto optimizer = zero_redundancy_optimizer<FusedSgd>(group, ddp.parameters(), FusedSgdOptions{.lr = 1});
    int steps = 0;
    join({ddp, *optimizer}, [&] {
      for (; steps <= group.rank(); ++steps) {
        optimizer->zero_grad();
        ddp(torch::ones({1, 1})).sum().backward();
        optimizer->step();
      }
    });
    CHECK_IN_RANK(steps == group.rank() + 1);
    const std::vector<at::Tensor> all = all_gather(group, model->bias.detach());
    CHECK_IN_RANK(all[0].equal(all[1]));
  });
}

TEST_CASE("under join a step that a GradScaler leaves out is one that ranks without input shadow") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    DistributedDataParallel ddp(model, group.process_group());
    auto optimizer = zero_redundancy_optimizer<Rmsprop>(group, ddp.parameters(), RmspropOptions{});
    GradScaler scaler;
    join({ddp, *optimizer}, [&] {
      for (int step = 0; step <= group.rank(); ++step) {
        optimizer->zero_grad();
        scaler.scale((ddp(torch::ones({1, 1})) * (step == 0 ? 1.0 : INFINITY)).sum()).backward();
        scaler.step(*optimizer);
        scaler.update();
      }
    });
    CHECK_IN_RANK(scaler.get_scale() == (group.rank() == 0 ? 65536 : 32768));
    const std::vector<at::Tensor> all = all_gather(group, model->bias.detach());
    CHECK_IN_RANK(all[0].equal(all[1]) && all[0].isfinite().all().item<bool>());
  });
}

// No kernel takes a scale for its parameters, as for complex ones of Adagrad with libtorch 2.15.
struct TakesNoScale final : FusedOptimizer {
  explicit TakesNoScale(const std::vector<std::vector<at::Tensor>>& groups) {
    for (const std::vector<at::Tensor>& group : groups) append_group(group);
  }
  [[nodiscard]] std::string name() const override { return "TakesNoScale"; }
  [[nodiscard]] bool supports_scale() const override { return parameters().empty(); }
  [[nodiscard]] double learning_rate(std::size_t /*group*/) const override { return 1; }
  void set_learning_rate(std::size_t /*group*/, double /*rate*/) override {}
  [[nodiscard]] std::optional<double> momentum(std::size_t /*group*/) const override { return {}; }
  void set_momentum(std::size_t /*group*/, double /*momentum*/) override {}
  [[nodiscard]] Hyperparameters own_hyperparameters(std::size_t /*group*/) const override { return {}; }
  [[nodiscard]] std::vector<std::string> state_names(std::size_t /*group*/) const override { return {}; }
  void update(std::size_t /*group*/, Batch& /*batch*/) override {}
};

TEST_CASE("a ZeroRedundancyOptimizer takes a scale where the optimizers of all shares do") {
  run_ranks_to_success(2, [](const Group& group) {
    const std::vector<at::Tensor> one = {torch::zeros({1}, torch::requires_grad())};  // rank 1 has no share
    const ZeroRedundancyOptimizer optimizer(
        group, {one}, [](const auto& shares) { return std::make_unique<TakesNoScale>(shares); });
    CHECK_IN_RANK(!optimizer.supports_scale());
    CHECK_IN_RANK(zero_redundancy_optimizer<FusedSgd>(group, one, FusedSgdOptions{})->supports_scale());
  });
}

TEST_CASE("join takes a view with parameters that are not defined, as the wrapper does") {
  run_ranks_to_success(1, [](const Group& group) {
    const auto weight = torch::ones({1}, torch::requires_grad());
    ModuleView view;
    view.parameters = {{"weight", weight}, {"none", at::Tensor()}};
    const auto times = [weight](const torch::Tensor& input) { return input * weight; };
    DistributedDataParallel<std::function<torch::Tensor(const torch::Tensor&)>> ddp(times, view,
                                                                                    group.process_group());
    ddp.join([&] { ddp(torch::ones({1})).sum().backward(); });
    CHECK_IN_RANK(weight.grad().item<float>() == 1);
  });
}

TEST_CASE("join refuses nothing, and joinables of several groups") {
  const auto nothing = run_ranks(1, [](const Group&) { join({}, [] {}); });
  CHECK(message_of(nothing[0]) == "join: nothing to join is given");
  const auto two = run_ranks(1, [](const Group& group) {
    Counter first(group), second(new_group(group));
    join({first, second}, [] {});
  });
  CHECK(message_of(two[0]) == "join: the joinables have different groups; give all of them one");
}

TEST_CASE("join refuses delayed reductions, which it could not shadow") {
  const auto failures = run_ranks(1, [](const Group& group) {
    DistributedDataParallel ddp(torch::nn::Linear(1, 1), group.process_group(),
                                {.delay_all_reduce = {"bias"}, .reduce_delayed_when_ready = "weight"});
    ddp.join([] {});
  });
  CHECK(message_of(failures[0]) ==
        "DistributedDataParallel: join cannot shadow reductions that are delayed; leave out option "
        "delay_all_reduce");
}

TEST_CASE("after update_process_group the remaining ranks train on, also after a backward that failed") {
  run_ranks_to_success(3, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    DistributedDataParallel ddp(model, group.process_group());
    const auto gradient = [&] {
      model->zero_grad();
      (ddp(torch::ones({1, 1})) * (group.rank() + 1)).sum().backward();
      return model->bias.grad().item<float>();
    };
    CHECK_IN_RANK(gradient() == 2);
    CHECK_IN_RANK(gradient() == 2);
    ddp(torch::ones({1, 1}));  // and no backward: a reduction that never ended
    const Group two = new_group(group, {0, 1});
    ddp.update_process_group(two);
    if (!two.is_member()) return;
    CHECK_IN_RANK(gradient() == 1.5F);
    CHECK_IN_RANK(gradient() == 1.5F);
  });
}

TEST_CASE("join can end the loop everywhere when the first rank has no more input") {
  const auto texts = messages(2, [](const Group& group) {
    DistributedDataParallel ddp(torch::nn::Linear(4, 1), group.process_group());
    ddp.join(
        [&] {
          for (int step = 0; step < 3 + group.rank(); ++step) ddp(torch::ones({2, 4})).sum().backward();
        },
        {.throw_on_early_termination = true});
  });
  CHECK(texts[0] == "join: rank 0 has no more input, and was asked to throw then");
  CHECK(texts[1] ==
        "join: at least one rank has no more input, and was asked to throw then; rank 1 still had some");
}

TEST_CASE("join divides by the ranks that still have input where asked") {
  const auto texts = messages(2, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    DistributedDataParallel ddp(model, group.process_group());
    ddp.join(
        [&] {
          for (int step = 0; step < 1 + group.rank(); ++step) {
            model->zero_grad();
            ddp(torch::ones({1, 1})).sum().backward();
          }
          CHECK_IN_RANK(model->bias.grad().item<float>() == 1);
        },
        {.divide_by_initial_world_size = false});
    // The last step of the join was rank 1's alone; this one is of both again.
    model->zero_grad();
    ddp(torch::ones({1, 1})).sum().backward();
    CHECK_IN_RANK(model->bias.grad().item<float>() == 1);
  });
  CHECK(texts == std::vector<std::string>{"no exception", "no exception"});
}

}  // namespace
}  // namespace ddprun
