#include "tests/integration/runtime/in_threads.h"
#include "tests/support/catch.h"
#include <ddprun/comm_hooks.h>
#include <ddprun/distributed_data_parallel.h>

namespace ddprun {
namespace {

using testing::message_of;
using testing::run_ranks;
using testing::run_ranks_to_success;

struct TwoHeads : torch::nn::Module {
  TwoHeads() {
    body = register_module("body", torch::nn::Linear(4, 4));
    left = register_module("left", torch::nn::Linear(4, 1));
    right = register_module("right", torch::nn::Linear(4, 1));
  }
  std::pair<torch::Tensor, torch::Tensor> forward(const torch::Tensor& input) {
    const auto hidden = body(input);
    return {left(hidden), right(hidden)};
  }
  torch::nn::Linear body{nullptr}, left{nullptr}, right{nullptr};
};

// One head or the other, as the caller says.
struct OneHead : torch::nn::Module {
  explicit OneHead(std::shared_ptr<TwoHeads> given) : heads(register_module("heads", std::move(given))) {}
  torch::Tensor forward(const torch::Tensor& input, bool is_left) {
    const auto hidden = heads->body(input);
    return is_left ? heads->left(hidden) : heads->right(hidden);
  }
  std::shared_ptr<TwoHeads> heads;
};

std::vector<std::string> messages(int world, const std::function<void(const Group&)>& body) {
  std::vector<std::string> texts;
  for (const auto& failure : run_ranks(world, body)) texts.push_back(message_of(failure));
  return texts;
}

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

TEST_CASE("ranks with different models are told which parameter differs, all of them") {
  const auto texts = messages(2, [](const Group& group) {
    torch::nn::Linear model(4, group.rank() == 0 ? 1 : 2);
    DistributedDataParallel ddp(model, group.process_group());
  });
  CHECK(texts[0] ==
        "DistributedDataParallel: the ranks have different models: parameter 0 (weight) is Float [2, 4] "
        "strides [4, 1] "
        "on rank 1 and Float [1, 4] strides [4, 1] on rank 0 (there named weight); build the same model on "
        "every rank");
  CHECK(texts[1] == texts[0]);
}

TEST_CASE("ranks with different numbers of parameters are told so") {
  const auto texts = messages(2, [](const Group& group) {
    torch::nn::Linear model(torch::nn::LinearOptions(4, 1).bias(group.rank() == 0));
    DistributedDataParallel ddp(model, group.process_group());
  });
  CHECK(texts[0].find("rank 1 has 1 trainable parameters, rank 0 has 2") != std::string::npos);
}

TEST_CASE("what is not trained, or reduced later, is verified as well, before anything is sent") {
  const auto texts_of = [](const std::function<void(torch::nn::Linear&, int)>& change,
                           const DistributedDataParallelOptions& options = {}) {
    return messages(2, [&](const Group& group) {
      torch::nn::Linear model(torch::nn::LinearOptions(2, 3));
      change(model, group.rank());
      DistributedDataParallel ddp(model, group.process_group(), options);
    });
  };
  const std::string beginning = "DistributedDataParallel: the ranks have different models: ";
  const auto frozen = texts_of([](torch::nn::Linear& model, int rank) {
    model->weight.set_requires_grad(false);
    if (rank == 1) model->weight.set_data(torch::zeros({2, 3}));
  });
  CHECK(frozen[0] ==
        beginning +
            "parameter 0 (weight) is frozen Float [2, 3] on rank 1 and frozen Float [3, 2] on rank 0 "
            "(there named weight); build the same model on every rank");
  CHECK(frozen[1] == frozen[0]);
  const auto half_frozen = texts_of([](torch::nn::Linear& model, int rank) {
    (rank == 0 ? model->weight : model->bias).set_requires_grad(false);
  });
  CHECK(half_frozen[0].find(
            "parameter 0 (weight) is Float [3, 2] strides [2, 1] on rank 1 and frozen Float [3, 2] on "
            "rank 0") != std::string::npos);
  const auto delayed = texts_of(
      [](torch::nn::Linear& model, int rank) {
        if (rank == 1) model->bias.set_data(torch::zeros({4}));
      },
      {.delay_all_reduce = {"weight", "bias"}, .reduce_delayed_when_ready = "weight"});
  CHECK(delayed[0].find("parameter 1 (bias) is Float [4]") != std::string::npos);
  CHECK(delayed[1] == delayed[0]);
  const auto buffers = texts_of(
      [](torch::nn::Linear& model, int rank) { model->register_buffer("table", torch::zeros({2 + rank})); });
  CHECK(buffers[0].find("a buffer (table) is buffer Float [3] on rank 1 and buffer Float [2] on rank 0") !=
        std::string::npos);
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

// kUsage means the command line, which is not what has to be mended.
TEST_CASE("a wrong use of the library has the code of a wrong configuration") {
  const auto failures = run_ranks(1, [](const Group& group) {
    DistributedDataParallel ddp(std::make_shared<TwoHeads>(), group.process_group());
    ddp(torch::ones({2, 4})).second.sum().backward();
    ddp.check_finished();
  });
  try {
    std::rethrow_exception(failures[0]);
  } catch (const Exception& error) {
    CHECK(error.code() == ErrorCode::kConfig);
  }
}

TEST_CASE("options that cannot be are refused by name") {
  const auto message = [](DistributedDataParallelOptions options) {
    return messages(1, [&](const Group& group) {
      DistributedDataParallel ddp(torch::nn::Linear(4, 1), group.process_group(), options);
    })[0];
  };
  CHECK(message({.bucket_cap_mb = 0.0}) ==
        "DistributedDataParallel: bucket_cap_mb is 0; expected a number above 0 (MiB)");
  CHECK(message({.bucket_cap_mb_list = {1.0, -2.0}}) ==
        "DistributedDataParallel: bucket_cap_mb_list is [1, -2]; expected numbers above 0 (MiB)");
  CHECK(message({.device_ids = {0}}) ==
        "DistributedDataParallel: device_ids [0] and output_device unset are for a module on one GPU, and go "
        "together; the parameters are on cpu");
  CHECK(message({.output_device = 0}) ==
        "DistributedDataParallel: device_ids [] and output_device 0 are for a module on one GPU, and go "
        "together; the parameters are on cpu");
  CHECK(message({.ignored = {"wieght"}}) ==
        "DistributedDataParallel: option ignored names \"wieght\", and the model has no parameter of that "
        "name");
  CHECK(message({.delay_all_reduce = {"bias"}}) ==
        "DistributedDataParallel: options delay_all_reduce and reduce_delayed_when_ready go together; set "
        "both or "
        "neither");
  CHECK(
      message({.delay_all_reduce = {"wieght"}, .reduce_delayed_when_ready = "bias"}) ==
      "DistributedDataParallel: option delay_all_reduce names \"wieght\", and the model has no parameter of "
      "that name");
}

TEST_CASE("a model without anything to train is refused") {
  const auto texts = messages(1, [](const Group& group) {
    torch::nn::ReLU model;
    DistributedDataParallel ddp(model, group.process_group());
  });
  CHECK(texts[0] ==
        "DistributedDataParallel: none of the model's 0 parameters requires a gradient; there is nothing to "
        "train in "
        "parallel");
}

TEST_CASE("a second communication hook is refused") {
  const auto texts = messages(1, [](const Group& group) {
    DistributedDataParallel ddp(torch::nn::Linear(4, 1), group.process_group());
    ddp.register_comm_hook(allreduce_hook(group));
    ddp.register_comm_hook(allreduce_hook(group));
  });
  CHECK(texts[0] == "DistributedDataParallel: a communication hook is registered already; there can be one");
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

namespace {

/// Of TwoHeads.
const DistributedDataParallelOptions kDelayedHeads{
    .delay_all_reduce = {"left.weight", "left.bias", "right.weight", "right.bias"},
    .reduce_delayed_when_ready = "body.weight"};

}  // namespace

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

TEST_CASE("a bucket order that c10d cannot have is refused, and the replica trains on as before") {
  struct ManyKinds : torch::nn::Module {
    ManyKinds() {
      scale = register_parameter("scale", torch::ones({1}, torch::kDouble));
      table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(4, 2).sparse(true)));
      linear = register_module("linear", torch::nn::Linear(2, 1));
    }
    torch::Tensor forward(const torch::Tensor& input) { return linear(table(input)).sum() * scale; }
    torch::Tensor scale;
    torch::nn::Embedding table{nullptr};
    torch::nn::Linear linear{nullptr};
  };
  const auto texts = messages(2, [](const Group& group) {
    const auto model = std::make_shared<ManyKinds>();
    DistributedDataParallel ddp(model, group.process_group());
    const auto refusal = [&](const BucketOrder& order) -> std::string {
      try {
        ddp.set_bucket_order(order);
        return "no exception";
      } catch (const Exception& error) {
        return error.what();
      } catch (const c10::Error&) {
        return "c10d's";
      }
    };
    CHECK_IN_RANK(
        refusal({{1}, {2, 3}, {0}, {}}) ==
        "DistributedDataParallel: the bucket order has 4 buckets, and bucket 3 is empty; leave it out");
    CHECK_IN_RANK(refusal({{3, 1}, {2}, {0}}) ==
                  "DistributedDataParallel: bucket 0 of the bucket order holds parameter 1 (table.weight), "
                  "whose gradient is sparse, beside others; give it a bucket of its own");
    CHECK_IN_RANK(
        refusal({{1}, {2, 3, 0}}) ==
        "DistributedDataParallel: bucket 1 of the bucket order holds parameter 2 (linear.weight), "
        "Float on cpu, and parameter 0 (scale), Double on cpu; a bucket has one dtype and one device");
    CHECK_IN_RANK(refusal({{1}, {3, 2}, {0}}) == "no exception");
    (ddp(torch::tensor({1})) * (group.rank() + 1)).sum().backward();
    CHECK_IN_RANK(model->linear->bias.grad().item<float>() == 1.5F);
  });
  CHECK(texts == std::vector<std::string>{"no exception", "no exception"});
}

TEST_CASE("a callable with named parameters can be wrapped") {
  const auto texts = messages(2, [](const Group& group) {
    auto weight = torch::full({1}, static_cast<float>(group.rank()), torch::requires_grad());
    const auto scale = [weight](const torch::Tensor& input) { return weight * input; };
    DistributedDataParallel ddp(scale, ModuleView{.parameters = {{.name = "weight", .tensor = weight}}},
                                group.process_group());
    ddp(torch::full({1}, static_cast<float>(group.rank()))).sum().backward();
    CHECK_IN_RANK(weight.item<float>() == 0);
    CHECK_IN_RANK(weight.grad().item<float>() == 0.5F);
  });
  CHECK(texts == std::vector<std::string>{"no exception", "no exception"});
}

TEST_CASE("AnyModule and Sequential can be wrapped") {
  const auto texts = messages(1, [](const Group& group) {
    DistributedDataParallel any(torch::nn::AnyModule(torch::nn::Linear(4, 1)), group.process_group());
    any(torch::ones({2, 4})).sum().backward();
    DistributedDataParallel sequential(
        torch::nn::Sequential(torch::nn::Linear(4, 2), torch::nn::Linear(2, 1)), group.process_group());
    sequential(torch::ones({2, 4})).sum().backward();
  });
  CHECK(texts[0] == "no exception");
}

}  // namespace
}  // namespace ddprun
