#include "tests/integration/runtime/heads.h"
#include "tests/support/catch.h"
#include <ddprun/comm_hooks.h>
#include <ddprun/distributed_data_parallel.h>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

namespace ddprun {
namespace {

using testing::messages;
using testing::run_ranks;
using testing::TwoHeads;

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
