// A training loop in C++ in which one rank comes to grief.
//
// program BACKEND AROUND WHAT AT CULPRIT [DEVICE]: rank CULPRIT does WHAT (acts.h, and what only libtorch and
// libddprun throw) AT start, made (the group is there), together (in what all do or none), wrapped (the model is
// there, too), before (a step), forward, backward, after (the backward), stepped, thread (of its own, beside the
// step), shutdown, destroyed (the group is closed). AROUND is what main does about it: recorded, plain (nothing),
// caught (prints it and returns 5), recorded_caught (the same within record), threads and recorded_threads (as these,
// where an exception in the backward finds a thread that nobody has joined).
#include "tests/fault/trainer/acts.h"
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/fail_together.h>
#include <ddprun/init.h>
#include <ddprun/optim.h>
#include <ddprun/record.h>

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

constexpr int kStep = 5;
constexpr int kSteps = 8;
constexpr int kOwnCode = 5;

struct Plan {
  std::string backend, around, what, at;
  int culprit = 0;
  std::string device = "cpu";

  [[nodiscard]] bool is_careless() const { return around.ends_with("threads"); }

  void reach(const std::string& place) const {
    if (place != at || std::getenv("RANK") != std::to_string(culprit)) return;
    if (what == "config") throw ddprun::Exception(ddprun::ErrorCode::kConfig, "the batch size is odd");
    if (what == "shapes") torch::ones({2, 3}).mm(torch::ones({2, 3}));
    if (what == "torch_memory") torch::empty({1LL << 60});
    ddprun::testing::act(what);
  }
};

struct Net : torch::nn::Module {
  explicit Net(const Plan& one) : plan(one) { layer = register_module("layer", torch::nn::Linear(64, 64)); }

  torch::Tensor forward(const torch::Tensor& input) {
    if (is_at_fault) plan.reach("forward");
    torch::Tensor output = layer->forward(input);
    if (is_at_fault) output.register_hook([this](const torch::Tensor&) { plan.reach("backward"); });
    return output.square().mean();
  }

  const Plan& plan;
  torch::nn::Linear layer{nullptr};
  bool is_at_fault = false;
};

struct AtTheEnd {
  const Plan& plan;
  ~AtTheEnd() noexcept(false) { plan.reach("destroyed"); }
};

int train(const Plan& plan) {
  plan.reach("start");
  const AtTheEnd at_the_end{plan};
  ddprun::Context context = ddprun::init({.backend = plan.backend, .device = plan.device});
  plan.reach("made");
  ddprun::fail_together(context, [&] { plan.reach("together"); });
  auto net = std::make_shared<Net>(plan);
  net->to(context.device());
  ddprun::DistributedDataParallel ddp(net, context);
  plan.reach("wrapped");
  ddprun::FusedSgd optimizer(ddp.parameters(), {.lr = 0.01});
  for (int step = 0; step < kSteps; ++step) {
    net->is_at_fault = step == kStep;
    if (step == kStep) plan.reach("before");
    optimizer.zero_grad();
    const torch::Tensor loss = ddp(torch::ones({8, 64}, context.device()));
    std::jthread beside([&] {
      if (step == kStep) plan.reach("thread");
    });
    if (plan.is_careless()) {
      std::thread unjoined([] {});
      loss.backward();
      unjoined.join();
    } else {
      loss.backward();
    }
    if (step == kStep) plan.reach("after");
    optimizer.step();
    if (step == kStep) plan.reach("stepped");
  }
  plan.reach("shutdown");
  context.shutdown();
  return 0;
}

int train_and_catch(const Plan& plan) {
  try {
    return train(plan);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return kOwnCode;
  }
}

int run(const Plan& plan) {
  const bool catches = plan.around.ends_with("caught") || plan.is_careless();
  const auto body = [&] { return catches ? train_and_catch(plan) : train(plan); };
  return plan.around.starts_with("recorded") ? ddprun::record(body) : body();
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan{
      .backend = argv[1], .around = argv[2], .what = argv[3], .at = argv[4], .culprit = std::atoi(argv[5])};
  if (argc > 6) plan.device = argv[6];
  return run(plan);
}
