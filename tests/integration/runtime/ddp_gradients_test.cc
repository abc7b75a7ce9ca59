#include "tests/integration/runtime/heads.h"
#include "tests/support/catch.h"
#include <ddprun/distributed_data_parallel.h>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/linear.h>

namespace ddprun {
namespace {

using testing::messages;
using testing::OneHead;
using testing::run_ranks_to_success;
using testing::TwoHeads;

/// Of TwoHeads.
const DistributedDataParallelOptions kDelayedHeads{
    .delay_all_reduce = {"left.weight", "left.bias", "right.weight", "right.bias"},
    .reduce_delayed_when_ready = "body.weight"};

TEST_CASE("an output left out of the loss names the parameters without a gradient") {
  const auto texts = messages(2, [](const Group& group) {
    DistributedDataParallel ddp(std::make_shared<TwoHeads>(), group.process_group());
    ddp(torch::ones({2, 4})).first.sum().backward();
    ddp(torch::ones({2, 4}));
  });
  CHECK(texts[1] ==
        "DistributedDataParallel: the last backward gave no gradient to 2 of 6 parameters on rank 1: "
        "right.weight, "
        "right.bias; they took no part in the loss. Use all outputs of forward in the loss, or set "
        "find_unused_parameters if the model leaves parameters out on purpose");
}

// DDP: Python asks before every forward whether the last reduction has finished; otherwise replicas drift
// apart.
TEST_CASE("an output left out of the loss is noticed in every step, not only in the first two") {
  const auto texts = messages(2, [](const Group& group) {
    DistributedDataParallel ddp(std::make_shared<TwoHeads>(), group.process_group());
    const double scale = group.rank() + 1;
    for (int step = 0; step < 4; ++step) {
      const auto [left, right] = ddp(torch::full({2, 4}, scale));
      (step < 2 ? left + right : left).sum().backward();
    }
  });
  for (const std::string& text : texts) {
    CHECK(text.find("gave no gradient to 2 of 6 parameters") != std::string::npos);
    CHECK(text.find("right.weight, right.bias") != std::string::npos);
  }
}

TEST_CASE("with find_unused_parameters a parameter that backward left out is noticed") {
  const auto texts = messages(2, [](const Group& group) {
    const auto model = std::make_shared<TwoHeads>();
    DistributedDataParallel ddp(model, group.process_group(), {.find_unused_parameters = true});
    for (int step = 0; step < 4; ++step) {
      const auto loss = ddp(torch::ones({2, 4})).first.sum();
      if (step < 2) {
        loss.backward();
      } else {
        torch::autograd::backward({loss}, {}, {}, false, {model->left->weight, model->left->bias});
      }
    }
  });
  for (const std::string& text : texts) {
    CHECK(text.find("gave no gradient to 4 of 6 parameters") != std::string::npos);
    CHECK(text.find(": body.weight, body.bias, right.weight, right.bias; ") != std::string::npos);
    CHECK(text.find("find_unused_parameters") == std::string::npos);
  }
}

TEST_CASE("find_unused_parameters takes another set of unused parameters in every step") {
  run_ranks_to_success(2, [](const Group& group) {
    const auto model = std::make_shared<TwoHeads>();
    DistributedDataParallel ddp(std::make_shared<OneHead>(model), group.process_group(),
                                {.find_unused_parameters = true});
    for (int step = 0; step < 6; ++step) {
      model->zero_grad();
      (ddp(torch::ones({2, 4}), step % 2 == 0) * (group.rank() + 1.0)).sum().backward();
      const auto& used = step % 2 == 0 ? model->left : model->right;
      const auto& unused = step % 2 == 0 ? model->right : model->left;
      CHECK_IN_RANK(used->bias.grad().item<float>() == 3);
      CHECK_IN_RANK(!unused->bias.grad().defined());
    }
  });
}

// torch.nn.parallel.DistributedDataParallel._get_ddp_logging_data()
TEST_CASE("logging_data tells what c10d knows of the replica") {
  run_ranks_to_success(2, [](const Group& group) {
    DistributedDataParallel ddp(std::make_shared<TwoHeads>(), group.process_group());
    ddp.register_comm_hook(allreduce_hook(group));
    for (int step = 0; step < 3; ++step) {
      const auto [left, right] = ddp(torch::ones({2, 4}));
      (left + right).sum().backward();
    }
    const c10::DDPLoggingData data = ddp.logging_data();
    CHECK_IN_RANK(data.ints_map.at("world_size") == 2);
    CHECK_IN_RANK(data.ints_map.at("rank") == group.rank());
    CHECK_IN_RANK(data.ints_map.at("num_parameter_tensors") == 6);
    CHECK_IN_RANK(data.ints_map.at("unused_parameter_size") == 0);
    CHECK_IN_RANK(data.strs_map.at("module_name").find("TwoHeads") != std::string::npos);
    CHECK_IN_RANK(!data.strs_map.at("comm_hook").empty());
  });
}

TEST_CASE("check_finished finds missing gradients before the next forward") {
  const auto texts = messages(1, [](const Group& group) {
    DistributedDataParallel ddp(std::make_shared<TwoHeads>(), group.process_group());
    ddp(torch::ones({2, 4})).second.sum().backward();
    ddp.check_finished();
  });
  CHECK(texts[0].find("left.weight, left.bias") != std::string::npos);
}

TEST_CASE("find_unused_parameters allows an output left out of the loss") {
  const auto texts = messages(2, [](const Group& group) {
    const auto model = std::make_shared<TwoHeads>();
    DistributedDataParallel ddp(model, group.process_group(), {.find_unused_parameters = true});
    for (int step = 0; step < 3; ++step) ddp(torch::ones({2, 4})).first.sum().backward();
    CHECK_IN_RANK(!model->right->weight.grad().defined());
  });
  CHECK(texts == std::vector<std::string>{"no exception", "no exception"});
}

TEST_CASE("ignored parameters keep their own values and gradients") {
  const auto texts = messages(2, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    {
      const torch::NoGradGuard no_grad;
      model->weight.fill_(group.rank());
      model->bias.fill_(group.rank());
    }
    DistributedDataParallel ddp(model, group.process_group(), {.ignored = {"bias"}});
    CHECK_IN_RANK(model->weight.item<float>() == 0);
    CHECK_IN_RANK(model->bias.item<float>() == static_cast<float>(group.rank()));
    const float scale = static_cast<float>(group.rank() + 1);
    (scale * ddp(torch::ones({1, 1}))).sum().backward();
    CHECK_IN_RANK(model->weight.grad().item<float>() == 1.5F);
    CHECK_IN_RANK(model->bias.grad().item<float>() == scale);
  });
  CHECK(texts == std::vector<std::string>{"no exception", "no exception"});
}

TEST_CASE("delayed parameters are averaged in one buffer") {
  const auto texts = messages(2, [](const Group& group) {
    const auto model = std::make_shared<TwoHeads>();
    DistributedDataParallel ddp(model, group.process_group(), kDelayedHeads);
    const float scale = static_cast<float>(group.rank() + 1);
    for (int step = 0; step < 2; ++step) {
      model->zero_grad(false);
      const auto [left, right] = ddp(torch::ones({1, 4}));
      (scale * (left + right)).sum().backward();
      CHECK_IN_RANK(model->left->bias.grad().item<float>() == 1.5F);
      CHECK_IN_RANK(model->right->bias.grad().item<float>() == 1.5F);
    }
  });
  CHECK(texts == std::vector<std::string>{"no exception", "no exception"});
}

TEST_CASE("delayed parameters are averaged, also where gradients are reset between forward and backward") {
  const auto texts = messages(2, [](const Group& group) {
    const auto model = std::make_shared<TwoHeads>();
    DistributedDataParallel ddp(model, group.process_group(), kDelayedHeads);
    const float scale = static_cast<float>(group.rank() + 1);
    for (int step = 0; step < 2; ++step) {
      const auto [left, right] = ddp(torch::ones({1, 4}));
      model->zero_grad();
      (scale * (step == 0 ? left + right : left)).sum().backward();
      CHECK_IN_RANK(model->left->bias.grad().item<float>() == 1.5F);
      CHECK_IN_RANK(model->right->bias.grad().item<float>() == (step == 0 ? 1.5F : 0.0F));
    }
  });
  CHECK(texts == std::vector<std::string>{"no exception", "no exception"});
}

TEST_CASE("delayed parameters of several dtypes have gradients of their own dtypes") {
  struct TwoTypes : torch::nn::Module {
    TwoTypes() {
      narrow = register_parameter("narrow", torch::ones({2}, torch::kBFloat16));
      wide = register_parameter("wide", torch::ones({3}, torch::kFloat));
      last = register_parameter("last", torch::ones({1}, torch::kFloat));
    }
    torch::Tensor forward(const torch::Tensor& input) {
      return (narrow.to(torch::kFloat).sum() + wide.sum()) * input * last;
    }
    torch::Tensor narrow, wide, last;
  };
  const auto texts = messages(2, [](const Group& group) {
    const auto model = std::make_shared<TwoTypes>();
    DistributedDataParallel ddp(
        model, group.process_group(),
        {.delay_all_reduce = {"narrow", "wide"}, .reduce_delayed_when_ready = "last"});
    ddp(torch::full({1}, static_cast<double>(group.rank() + 1))).sum().backward();
    for (const auto& parameter : {model->narrow, model->wide}) {
      CHECK_IN_RANK(parameter.grad().scalar_type() == parameter.scalar_type());
      CHECK_IN_RANK(parameter.grad().eq(1.5).all().item<bool>());
    }
  });
  CHECK(texts == std::vector<std::string>{"no exception", "no exception"});
}

// Python fixes the set in the constructor as well, and lets requires_grad change.
TEST_CASE("parameters() are those that are averaged, whatever requires a gradient later") {
  const auto texts = messages(1, [](const Group& group) {
    const auto model = std::make_shared<TwoHeads>();
    model->right->weight.set_requires_grad(false);
    DistributedDataParallel ddp(model, group.process_group(),
                                {.ignored = {"right.bias"},
                                 .delay_all_reduce = {"body.bias"},
                                 .reduce_delayed_when_ready = "body.weight"});
    model->right->weight.set_requires_grad(true);
    model->left->bias.set_requires_grad(false);
    const std::vector<torch::Tensor> expected = {model->body->weight, model->body->bias, model->left->weight,
                                                 model->left->bias};
    const std::vector<torch::Tensor> given = ddp.parameters();
    CHECK_IN_RANK(given.size() == expected.size());
    for (std::size_t i = 0; i < std::min(given.size(), expected.size()); ++i)
      CHECK_IN_RANK(given[i].is_same(expected[i]));
  });
  CHECK(texts[0] == "no exception");
}

}  // namespace
}  // namespace ddprun
