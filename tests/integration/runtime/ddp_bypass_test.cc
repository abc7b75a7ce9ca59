#include "tests/integration/runtime/heads.h"
#include "tests/support/catch.h"
#include <ddprun/distributed_data_parallel.h>

#include <torch/nn/modules/linear.h>

namespace ddprun {
namespace {

using testing::messages;
using testing::run_ranks_to_success;
using testing::TwoHeads;

TEST_CASE("calling the model in place of the wrapper is noticed") {
  const auto texts = messages(2, [](const Group& group) {
    torch::nn::Linear model(4, 1);
    DistributedDataParallel ddp(model, group.process_group());
    ddp(torch::ones({2, 4})).sum().backward();
    model(torch::ones({2, 4})).sum().backward();
  });
  for (const std::string& text : texts) {
    CHECK(text.find("DistributedDataParallel: backward reached parameter") == 0);
    CHECK(text.find("call the DistributedDataParallel object, not the module inside it, in every step") !=
          std::string::npos);
  }
}

TEST_CASE("a program may say that it bypasses the wrapper on purpose") {
  const auto texts = messages(1, [](const Group& group) {
    torch::nn::Linear model(4, 1);
    DistributedDataParallel ddp(model, group.process_group(), {.on_bypassed_forward = BypassPolicy::kAllow});
    model(torch::ones({2, 4})).sum().backward();
  });
  CHECK(texts[0] == "no exception");
}

TEST_CASE("accumulation under no_sync is no bypass") {
  const auto texts = messages(2, [](const Group& group) {
    torch::nn::Linear model(4, 1);
    DistributedDataParallel ddp(model, group.process_group());
    {
      const auto guard = ddp.no_sync();
      const auto first = ddp(torch::ones({2, 4})).sum();
      const auto second = ddp(torch::ones({2, 4})).sum();
      first.backward();
      second.backward();
    }
    ddp(torch::ones({2, 4})).sum().backward();
    CHECK_IN_RANK(model->bias.grad().item<float>() == 6);
  });
  CHECK(texts == std::vector<std::string>{"no exception", "no exception"});
}

// DDP: gradients under no_sync are summed, however many backwards there are.
TEST_CASE("one forward under no_sync may be followed by two backwards") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(4, 1);
    DistributedDataParallel ddp(model, group.process_group());
    {
      const auto guard = ddp.no_sync();
      const auto loss = ddp(torch::ones({2, 4})).sum();
      loss.backward({}, /*retain_graph=*/true);
      loss.backward();
    }
    ddp(torch::ones({2, 4})).sum().backward();
    CHECK_IN_RANK(model->bias.grad().item<float>() == 6);
  });
}

TEST_CASE("outputs may outlive the wrapper") {
  for (const bool is_static : {false, true}) {
    run_ranks_to_success(1, [&](const Group& group) {
      const auto model = std::make_shared<TwoHeads>();
      torch::Tensor output;
      {
        DistributedDataParallel ddp(model, group.process_group(),
                                    {.find_unused_parameters = !is_static, .static_graph = is_static});
        const auto [left, right] = ddp(torch::ones({2, 4}));
        output = left + right;
      }
      output.sum().backward();
      CHECK_IN_RANK(model->left->bias.grad().item<float>() == 2);
    });
  }
}

TEST_CASE("a backward past the wrapper is noticed with static_graph, too, in every step") {
  const auto texts = messages(2, [](const Group& group) {
    torch::nn::Linear model(2, 1);
    DistributedDataParallel ddp(model, group.process_group(), {.static_graph = true});
    for (int step = 0; step < 3; ++step) ddp(torch::ones({1, 2})).sum().backward();
    model->forward(torch::ones({1, 2})).sum().backward();
  });
  CHECK(texts[0].find("and no forward of the wrapper came before it") != std::string::npos);
}

TEST_CASE("a module that is cast or moved after its wrapper was made is refused at the next forward") {
  const auto texts = messages(1, [](const Group& group) {
    torch::nn::Linear model(2, 1);
    DistributedDataParallel ddp(model, group.process_group());
    model->to(torch::kDouble);
    ddp(torch::ones({1, 2}, torch::kDouble));
  });
  CHECK(texts[0] ==
        "DistributedDataParallel: parameter \"weight\" was moved or cast after the wrapper was made (it is "
        "Double on cpu "
        "now), so its gradient would stay on this rank; call to() first, and then make the wrapper");
  // There and back: as it was, and yet without the reducer's hooks.
  const auto back = messages(1, [](const Group& group) {
    torch::nn::Linear model(2, 1);
    DistributedDataParallel ddp(model, group.process_group());
    model->to(torch::kDouble);
    model->to(torch::kFloat);
    ddp(torch::ones({1, 2}));
  });
  CHECK(back[0].find("was moved or cast after the wrapper was made") != std::string::npos);
}

}  // namespace
}  // namespace ddprun
