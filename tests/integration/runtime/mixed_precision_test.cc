#include "tests/integration/runtime/in_threads.h"
#include "tests/support/catch.h"
#include <ddprun/comm_hooks.h>
#include <ddprun/distributed_data_parallel.h>

#include <torch/nn/functional.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace ddprun {
namespace {

using testing::run_ranks_to_success;

constexpr auto kHalfPrecision = torch::kBFloat16;

DistributedDataParallelOptions mixed(MixedPrecision dtypes = {.param_dtype = kHalfPrecision,
                                                              .reduce_dtype = torch::kFloat32,
                                                              .buffer_dtype = {}}) {
  DistributedDataParallelOptions options;
  options.mixed_precision = dtypes;
  return options;
}

// Of a Linear(2, 1): its bias has the gradient 1 for each row of the input, times `factor`.
torch::Tensor backward(DistributedDataParallel<torch::nn::Linear>& ddp, double factor) {
  const torch::Tensor output = ddp(torch::ones({1, 2}));
  (output * factor).sum().backward();
  return output;
}

bool is_full(const torch::nn::Linear& model) {
  return model->weight.scalar_type() == torch::kFloat32 && model->bias.scalar_type() == torch::kFloat32;
}

std::string refusal_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST_CASE("a step computes in param_dtype, and ends with parameters and gradients in their own") {
  run_ranks_to_success(2, [](const Group& group) {
    for (const bool is_static : {false, true}) {
      auto options = mixed();
      options.static_graph = is_static;
      torch::nn::Linear model(2, 1);
      DistributedDataParallel ddp(model, group.process_group(), options);
      const torch::Tensor weight = model->weight.detach().clone();
      for (int step = 1; step <= 4; ++step) {  // from the first on, unlike torch 2.11's
        const torch::Tensor output = backward(ddp, step * (group.rank() + 1));
        CHECK_IN_RANK(output.scalar_type() == kHalfPrecision);
        CHECK_IN_RANK(is_full(model));
        CHECK_IN_RANK(model->bias.grad().scalar_type() == torch::kFloat32);
        CHECK_IN_RANK(model->bias.grad().item<float>() == 1.5F * static_cast<float>(step));
        CHECK_IN_RANK(model->weight.equal(weight));
        model->zero_grad();
      }
    }
  });
}

// 1 + 2^-12 is 1 in bfloat16.
TEST_CASE("parameters that an optimizer changes by less than param_dtype can tell keep the change") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(2, 1);
    DistributedDataParallel ddp(model, group.process_group(), mixed());
    const torch::NoGradGuard no_grad;
    model->bias.fill_(1);
    for (int step = 0; step < 2; ++step) {
      const at::AutoGradMode gradients(true);
      backward(ddp, 1);
      const torch::NoGradGuard update;
      model->bias.add_(1.0 / 4096);
      model->zero_grad();
    }
    CHECK_IN_RANK(model->bias.item<float>() == 1 + 2.0F / 4096);
  });
}

TEST_CASE("with mixed precision gradients accumulate under no_sync, and over steps") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(2, 1);
    DistributedDataParallel ddp(model, group.process_group(), mixed());
    for (int round = 1; round <= 2; ++round) {
      {
        const auto guard = ddp.no_sync();
        backward(ddp, group.rank() + 1);
        backward(ddp, group.rank() + 1);
      }
      backward(ddp, group.rank() + 1);
      CHECK_IN_RANK(is_full(model));
      CHECK_IN_RANK(model->bias.grad().item<float>() == 4.5F);
      model->zero_grad(/*set_to_none=*/round == 2);
    }
    backward(ddp, 1);
    backward(ddp, 1);
    CHECK_IN_RANK(model->bias.grad().item<float>() == 2);
  });
}

TEST_CASE("a forward without gradients computes in param_dtype and changes nothing") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(2, 1);
    DistributedDataParallel ddp(model, group.process_group(), mixed());
    backward(ddp, 1);
    model->bias.mutable_grad().fill_(1 + 1.0 / 4096);
    {
      const torch::NoGradGuard no_grad;
      CHECK_IN_RANK(ddp(torch::ones({1, 2})).scalar_type() == kHalfPrecision);
    }
    CHECK_IN_RANK(is_full(model));
    CHECK_IN_RANK(model->bias.grad().item<float>() == 1 + 1.0F / 4096);
    // Between a forward and its backward, too.
    const torch::Tensor output = ddp(torch::ones({1, 2}));
    {
      const torch::NoGradGuard no_grad;
      ddp(torch::ones({1, 2}));
    }
    CHECK_IN_RANK(model->bias.scalar_type() == kHalfPrecision);
    model->zero_grad();
    output.sum().backward();
    CHECK_IN_RANK(is_full(model));
    CHECK_IN_RANK(model->bias.grad().item<float>() == 1);
  });
}

TEST_CASE("a backward that fails is followed by one that does not") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(2, 1);
    DistributedDataParallel ddp(model, group.process_group(), mixed());
    const torch::Tensor output = ddp(torch::ones({1, 2}));
    output.register_hook([](const torch::Tensor&) -> torch::Tensor { throw std::runtime_error("no"); });
    CHECK_IN_RANK([&] {
      try {
        output.sum().backward();
        return false;
      } catch (const std::exception&) {
        return true;
      }
    }());
    backward(ddp, group.rank() + 1);
    CHECK_IN_RANK(is_full(model));
    CHECK_IN_RANK(model->bias.grad().item<float>() == 1.5F);
  });
}

TEST_CASE("a module outlives its wrapper in its own dtype") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(2, 1);
    torch::Tensor output;
    {
      DistributedDataParallel ddp(model, group.process_group(), mixed());
      output = ddp(torch::ones({1, 2}));
      CHECK_IN_RANK(!is_full(model));
    }
    CHECK_IN_RANK(is_full(model));
  });
}

TEST_CASE("a backward that goes past the wrapper is noticed in mixed precision, too") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(2, 1);
    DistributedDataParallel ddp(model, group.process_group(), mixed());
    for (int step = 0; step < 2; ++step) {
      backward(ddp, 1);
      const std::string why = refusal_of([&] { model(torch::ones({1, 2})).sum().backward(); });
      CHECK_IN_RANK(why.find("not the module inside it") != std::string::npos);
      model->zero_grad();
    }
  });
}

// Python puts a hook on a tied weight for each of its modules, and fails.
TEST_CASE("a weight that is used twice is reduced once") {
  struct Tied final : torch::nn::Module {
    Tied() { weight = register_parameter("weight", torch::ones({2, 2})); }
    torch::Tensor forward(const torch::Tensor& input) {
      return torch::linear(torch::linear(input, weight), weight);
    }
    torch::Tensor weight;
  };
  run_ranks_to_success(2, [](const Group& group) {
    const auto model = std::make_shared<Tied>();
    DistributedDataParallel ddp(model, group.process_group(), mixed());
    for (int step = 0; step < 2; ++step) {
      (ddp(torch::ones({1, 2})) * (group.rank() + 1)).sum().backward();
      CHECK_IN_RANK(model->weight.grad().eq(6).all().item<bool>());
      model->zero_grad();
    }
  });
}

TEST_CASE("buffers are in buffer_dtype, and what is ignored stays as it is") {
  run_ranks_to_success(2, [](const Group& group) {
    const torch::nn::Linear linear(2, 2);
    std::vector<at::ScalarType> seen;  // in forward
    const auto look = [&](const torch::Tensor& input) {
      seen = {linear->weight.scalar_type(), linear->bias.scalar_type()};
      return input;
    };
    torch::nn::Sequential model(torch::nn::Functional(look), linear, torch::nn::BatchNorm1d(2));
    auto options = mixed({.param_dtype = kHalfPrecision, .reduce_dtype = {}, .buffer_dtype = torch::kHalf});
    options.ignored = {"2.running_var", "1.bias"};
    DistributedDataParallel ddp(model, group.process_group(), options);
    const auto norm = model[2]->as<torch::nn::BatchNorm1d>();
    CHECK_IN_RANK(norm->running_mean.scalar_type() == torch::kHalf);
    CHECK_IN_RANK(norm->num_batches_tracked.scalar_type() == torch::kHalf);
    CHECK_IN_RANK(norm->running_var.scalar_type() == torch::kFloat32);
    refusal_of([&] { ddp(torch::ones({2, 2})); });  // the linear layer does not take two dtypes
    CHECK_IN_RANK(seen == std::vector<at::ScalarType>{kHalfPrecision, torch::kFloat32});
  });
}

// Two layers; the first one throws where it is told to.
struct Fallible final : torch::nn::Module {
  Fallible() {
    first = register_module("first", torch::nn::Linear(2, 2));
    second = register_module("second", torch::nn::Linear(2, 1));
  }
  torch::Tensor forward(const torch::Tensor& input, bool fails = false) {
    if (fails) throw std::runtime_error("a batch that cannot be read");
    return second(first(input));
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
};

TEST_CASE("a forward that throws leaves parameters in their own dtype, and training goes on") {
  const bool with_gradients = GENERATE(false, true);
  run_ranks_to_success(2, [&](const Group& group) {
    const auto model = std::make_shared<Fallible>();
    DistributedDataParallel ddp(model, group.process_group(), mixed());
    for (int step = 1; step <= 2; ++step) {
      const std::string why = refusal_of([&] {
        const at::AutoGradMode mode(with_gradients);
        ddp(torch::ones({1, 2}), true);
      });
      CHECK_IN_RANK(why == "a batch that cannot be read");
      CHECK_IN_RANK(is_full(model->first));
      (ddp(torch::ones({1, 2})) * step * (group.rank() + 1)).sum().backward();
      CHECK_IN_RANK(model->second->bias.grad().item<float>() == 1.5F * static_cast<float>(step));
      const torch::Tensor gradient = model->first->weight.grad();
      gradient.fill_(1.23456776);  // no bf16
      refusal_of([&] { ddp(torch::ones({1, 2}), true); });
      CHECK_IN_RANK(gradient.equal(torch::full({2, 2}, 1.23456776)));
      model->zero_grad();
    }
  });
}

TEST_CASE("a forward that throws takes nothing from a backward that is still to come") {
  run_ranks_to_success(2, [](const Group& group) {
    const auto model = std::make_shared<Fallible>();
    DistributedDataParallel ddp(model, group.process_group(), mixed());
    const torch::Tensor output = ddp(torch::ones({1, 2}));
    refusal_of([&] {
      const torch::NoGradGuard no_grad;
      ddp(torch::ones({1, 2}), true);
    });
    CHECK_IN_RANK(!is_full(model->first));
    (output * (group.rank() + 1)).sum().backward();
    CHECK_IN_RANK(is_full(model->first));
    CHECK_IN_RANK(model->second->bias.grad().item<float>() == 1.5F);
  });
}

// As a GAN's discriminator is in the generator's step.
TEST_CASE("parameters may be frozen for one step in mixed precision") {
  run_ranks_to_success(2, [](const Group& group) {
    const auto model = std::make_shared<Fallible>();
    DistributedDataParallel ddp(model, group.process_group(), mixed());
    const auto freeze = [&](bool is_frozen) {
      for (const torch::Tensor& parameter : model->first->parameters())
        parameter.set_requires_grad(!is_frozen);
    };
    const auto step = [&] { (ddp(torch::ones({1, 2})) * (group.rank() + 1)).sum().backward(); };
    for (int round = 0; round < 2; ++round) {
      model->zero_grad();
      freeze(true);
      {
        const auto guard = ddp.no_sync();
        step();
        step();
      }
      freeze(false);
      step();
      CHECK_IN_RANK(is_full(model->first));
      CHECK_IN_RANK(model->second->bias.grad().item<float>() == 4.5F);
      const torch::Tensor used = model->second->weight.detach()[0].to(kHalfPrecision).to(torch::kFloat32);
      CHECK_IN_RANK(model->first->bias.grad().equal(1.5 * used));
    }
    freeze(true);
    {
      const torch::NoGradGuard no_grad;
      ddp(torch::ones({1, 2}));
    }
    freeze(false);
    const std::string why = refusal_of([&] { model->forward(torch::ones({1, 2})).sum().backward(); });
    CHECK_IN_RANK(why.find("not the module inside it") != std::string::npos);
    model->zero_grad();
    step();
    CHECK_IN_RANK(model->second->bias.grad().item<float>() == 1.5F);
  });
}

TEST_CASE("a module that is cast by its program in mixed precision is refused at the next forward") {
  const auto refusal = [](const std::string& why) {
    return why.find("\"weight\" was moved or cast after the wrapper was made") != std::string::npos;
  };
  run_ranks_to_success(1, [&](const Group& group) {
    torch::nn::Linear model(2, 1);
    DistributedDataParallel ddp(model, group.process_group(), mixed());
    backward(ddp, 1);
    model->to(torch::kDouble);
    for (int attempt = 0; attempt < 2; ++attempt)
      CHECK(refusal(refusal_of([&] { ddp(torch::ones({1, 2})); })));
  });
  // Here no forward casts parameters, and a forward without gradients comes between.
  run_ranks_to_success(1, [&](const Group& group) {
    torch::nn::Linear model(2, 1);
    DistributedDataParallel ddp(
        model, group.process_group(),
        mixed({.param_dtype = {}, .reduce_dtype = kHalfPrecision, .buffer_dtype = {}}));
    model->to(torch::kDouble);
    const torch::Tensor input = torch::ones({1, 2}, torch::kDouble);
    {
      const torch::NoGradGuard no_grad;
      ddp(input);
    }
    CHECK(refusal(refusal_of([&] { ddp(input); })));
  });
}

TEST_CASE("reduce_dtype alone reduces in it, also with gradients that are views") {
  run_ranks_to_success(2, [](const Group& group) {
    auto options = mixed({.param_dtype = {}, .reduce_dtype = kHalfPrecision, .buffer_dtype = {}});
    options.gradient_as_bucket_view = true;
    torch::nn::Linear model(2, 1);
    DistributedDataParallel ddp(model, group.process_group(), options);
    for (int step = 0; step < 2; ++step) {
      CHECK_IN_RANK(backward(ddp, 1 + 1.0 / 4096).scalar_type() == torch::kFloat32);
      CHECK_IN_RANK(model->bias.grad().scalar_type() == torch::kFloat32);
      CHECK_IN_RANK(model->bias.grad().item<float>() == 1);
      model->zero_grad();
    }
  });
}

TEST_CASE("under join, ranks without input shadow steps in mixed precision") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(2, 1);
    DistributedDataParallel ddp(model, group.process_group(), mixed());
    ddp.join([&] {
      for (int step = 0; step <= group.rank(); ++step) {
        model->zero_grad();
        backward(ddp, 1);
        CHECK_IN_RANK(model->bias.grad().item<float>() == (step == 0 ? 1.0F : 0.5F));
      }
    });
    CHECK_IN_RANK(refusal_of([&] {
                    ddp.join([] {}, {.divide_by_initial_world_size = false});
                  }).find("divide_by_initial_world_size on") != std::string::npos);
  });
}

TEST_CASE("a bucket holds parameters of one dtype of their own, as in Python") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Sequential model(torch::nn::Linear(2, 2), torch::nn::Linear(2, 1));
    model[1]->as<torch::nn::Linear>()->to(kHalfPrecision);
    DistributedDataParallel ddp(model, group.process_group(), mixed());
    const BucketOrder by_dtype = {{2, 3}, {0, 1}};
    CHECK_IN_RANK(ddp.bucket_order() == by_dtype);
    ddp.set_bucket_order(by_dtype);
    {
      const auto guard = ddp.no_sync();  // and no backward: they stay in param_dtype
      ddp(torch::ones({1, 2}));
    }
    const std::string why = refusal_of([&] { ddp.set_bucket_order({{0, 1, 2, 3}}); });
    CHECK_IN_RANK(why.find("a bucket has one dtype") != std::string::npos);
    (ddp(torch::ones({1, 2})) * (group.rank() + 1)).sum().backward();
    CHECK_IN_RANK(model->parameters().back().grad().item<float>() == 1.5F);
  });
}

TEST_CASE("what does not go with mixed precision is refused with the reason") {
  run_ranks_to_success(1, [](const Group& group) {
    const auto refusal = [&](const auto& module, const DistributedDataParallelOptions& options) {
      return refusal_of([&] { DistributedDataParallel ddp(module, group.process_group(), options); });
    };
    const std::string start = "DistributedDataParallel: mixed_precision: ";
    torch::nn::Linear model(2, 1);
    CHECK(refusal(model, mixed({.param_dtype = torch::kLong, .reduce_dtype = {}, .buffer_dtype = {}})) ==
          start + "param_dtype is Long; expected a floating-point dtype");
    auto options = mixed();
    options.find_unused_parameters = true;
    CHECK(refusal(model, options) ==
          start +
              "the search for unused parameters does not know them by the dtype that forward uses them "
              "in; leave out option find_unused_parameters");
    options = mixed();
    options.gradient_as_bucket_view = true;
    CHECK(refusal(model, options) ==
          start +
              "buckets are of param_dtype, and gradients of the parameters' dtype are no views of them; "
              "leave out option gradient_as_bucket_view");
    options = mixed();
    options.delay_all_reduce = {"weight"};
    options.reduce_delayed_when_ready = "weight";
    CHECK(refusal(model, options) ==
          start + "delayed reductions are made in the parameters' dtype; leave out option delay_all_reduce");
    CHECK(refusal(torch::nn::Embedding(torch::nn::EmbeddingOptions(2, 2).sparse(true)), mixed()) ==
          start + "parameter \"weight\" has sparse gradients");
    model->weight.set_data(model->weight.to(torch::kComplexFloat));
    CHECK(refusal(model, mixed()) ==
          start + "parameter \"weight\" is of ComplexFloat, not floating-point; name it in option ignored");
    DistributedDataParallel ddp(torch::nn::Linear(2, 1), group.process_group(), mixed());
    CHECK(refusal_of([&] { ddp.register_comm_hook(noop_hook()); }) ==
          "DistributedDataParallel: option mixed_precision brings a communication hook of its own, and there "
          "can be one");
  });
}

}  // namespace
}  // namespace ddprun
