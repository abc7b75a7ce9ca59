#include "tests/integration/runtime/in_threads.h"
#include "tests/support/catch.h"
#include <ddprun/collectives.h>
#include <ddprun/comm_hooks.h>
#include <ddprun/distributed_data_parallel.h>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

namespace ddprun {
namespace {

using testing::message_of;
using testing::run_ranks;
using testing::run_ranks_to_success;
using torch::Tensor;

// "spare" takes part in nothing.
struct WithSpare : torch::nn::Module {
  WithSpare() {
    one = register_module("one", torch::nn::Linear(4, 4));
    spare = register_module("spare", torch::nn::Linear(4, 4));
    two = register_module("two", torch::nn::Linear(4, 1));
  }
  Tensor forward(const Tensor& input) { return two(torch::relu(one(input))); }
  torch::nn::Linear one{nullptr}, spare{nullptr}, two{nullptr};
};

struct Step {
  int reductions = 0;
  std::vector<Tensor> gradients;
};

// One step in which every parameter has a bucket of its own, and every bucket is counted.
Step step_with(const Group& group, bool skip) {
  const auto model = std::make_shared<WithSpare>();
  {
    const torch::NoGradGuard no_grad;
    for (Tensor& parameter : model->parameters()) parameter.fill_(0.25);
  }
  DistributedDataParallel ddp(
      model, group.process_group(),
      {.bucket_cap_mb = 1e-6, .find_unused_parameters = true, .skip_all_reduce_unused_params = skip});
  Step step;
  ddp.register_comm_hook([&step, reduce = allreduce_hook(group)](c10d::GradBucket& bucket) {
    ++step.reductions;
    return reduce(bucket);
  });
  for (int i = 0; i < 2; ++i) {
    step.reductions = 0;
    ddp(torch::full({2, 4}, static_cast<double>(group.rank() + 1))).sum().backward();
  }
  CHECK_IN_RANK(!model->spare->weight.grad().defined());
  CHECK_IN_RANK(!model->spare->bias.grad().defined());
  for (const auto& parameter : {model->one->weight, model->one->bias, model->two->weight, model->two->bias}) {
    step.gradients.push_back(parameter.grad());
  }
  return step;
}

TEST_CASE("skip_all_reduce_unused_params leaves out the buckets that no rank used") {
  run_ranks_to_success(2, [](const Group& group) {
    const Step all = step_with(group, false);
    const Step skipping = step_with(group, true);
    CHECK_IN_RANK(all.reductions == 6);
    CHECK_IN_RANK(skipping.reductions == 4);
    for (std::size_t i = 0; i < all.gradients.size(); ++i) {
      CHECK_IN_RANK(skipping.gradients[i].equal(all.gradients[i]));
    }
  });
}

// torch::nn::Linear cannot be moved to meta, only be made there.
struct Layer : torch::nn::Module {
  Layer(std::int64_t in, std::int64_t out, at::Device device) {
    weight = register_parameter("weight", 0.1 * torch::ones({out, in}, device));
    bias = register_parameter("bias", torch::zeros({out}, device));
  }
  Tensor forward(const Tensor& input) { return torch::linear(input.to(weight.device()), weight, bias); }
  Tensor weight, bias;
};

// Two layers on two devices, and the input and the hidden values travel.
struct TwoDevices : torch::nn::Module {
  TwoDevices(at::Device a, at::Device b) {
    first = register_module("first", std::make_shared<Layer>(10, 10, a));
    second = register_module("second", std::make_shared<Layer>(10, 5, b));
  }
  Tensor forward(const Tensor& input) { return second->forward(torch::sigmoid(first->forward(input))); }
  std::shared_ptr<Layer> first, second;
};

TEST_CASE("a replica over two devices is trained as one") {
  run_ranks_to_success(2, [](const Group& group) {
    const auto model = std::make_shared<TwoDevices>(at::kCPU, at::kCPU);
    DistributedDataParallel ddp(model, group.process_group());
    for (int step = 0; step < 3; ++step) {
      model->zero_grad();
      ddp(torch::full({3, 10}, static_cast<double>(group.rank()))).sum().backward();
    }
    CHECK_IN_RANK(model->second->bias.grad().eq(3).all().item<bool>());
    CHECK_IN_RANK(model->first->weight.grad().defined());
  });
}

// On meta, tensors have shapes and no values: a device that is not the CPU, on every machine. c10d moves no
// meta tensors, so the hook says that nothing is to be moved, and there is one step: buckets are rebuilt
// before the second.
TEST_CASE("a module on meta goes through forward, backward and the reduction") {
  run_ranks_to_success(2, [](const Group& group) {
    const auto model = std::make_shared<TwoDevices>(at::kMeta, at::kMeta);
    DistributedDataParallel ddp(model, group.process_group(), {.init_sync = false});
    int reductions = 0;
    ddp.register_comm_hook([&reductions](c10d::GradBucket& bucket) {
      ++reductions;
      CHECK_IN_RANK(bucket.getBuffer().is_meta());
      auto future = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get());
      future->markCompleted(bucket.getBuffer());
      return future;
    });
    const Tensor output = ddp(torch::empty({3, 10}, at::kMeta));
    CHECK_IN_RANK(output.sizes() == at::IntArrayRef({3, 5}));
    output.sum().backward();
    CHECK_IN_RANK(reductions == 1);
    CHECK_IN_RANK(model->first->weight.grad().is_meta());
    CHECK_IN_RANK(model->first->weight.grad().sizes() == model->first->weight.sizes());
  });
}

// Takes what a model may: a tensor, tensors in containers, what is no tensor, and what cannot be copied.
struct ManyInputs : torch::nn::Module {
  ManyInputs() { weight = register_parameter("weight", torch::ones({2}, at::kMeta)); }
  using Named = std::map<std::string, std::vector<Tensor>>;
  Tensor forward(const Tensor& tensor, Named named, int factor, std::unique_ptr<int>& kept) {
    seen = {tensor.device(), named["a"][0].device()};
    *kept += factor;
    return weight * tensor * named["a"][0];
  }
  Tensor weight;
  std::vector<at::Device> seen;
};

TEST_CASE("with device_ids the tensors of all arguments are moved to the module's device") {
  run_ranks_to_success(1, [](const Group& group) {
    const auto model = std::make_shared<ManyInputs>();
    DistributedDataParallel ddp(model, group.process_group(), {.device_ids = {0}, .init_sync = false});
    const ManyInputs::Named named = {{"a", {torch::ones({2})}}};
    auto kept = std::make_unique<int>(1);
    const Tensor input = torch::ones({2});
    CHECK_IN_RANK(ddp(input, named, 2, kept).is_meta());
    CHECK_IN_RANK(model->seen == std::vector<at::Device>(2, at::kMeta));
    CHECK_IN_RANK(*kept == 3);
    CHECK_IN_RANK(input.is_cpu() && named.at("a")[0].is_cpu());  // the caller keeps its own
    CHECK_IN_RANK(ddp.logging_data().strs_map["device_ids"] == "0");
    CHECK_IN_RANK(ddp.logging_data().ints_map["output_device"] == 0);
  });
}

TEST_CASE("device_ids name the one device of the parameters") {
  const auto failures = run_ranks(1, [](const Group& group) {
    DistributedDataParallel ddp(std::make_shared<ManyInputs>(), group.process_group(),
                                {.device_ids = {0, 1}, .init_sync = false});
  });
  CHECK(message_of(failures[0]) ==
        "DistributedDataParallel: device_ids is [0, 1]; expected the index of the one device of the "
        "parameters, meta");
}

// An nccl group serves GPUs alone, and has nothing for the CPU. A backend that moves nothing stands for it.
class ServesNoCpu final : public c10d::Backend {
 public:
  using Backend::Backend;
  const std::string getBackendName() const override { return "serves-no-cpu"; }
};

TEST_CASE("a group whose backend serves the parameters' device alone is enough") {
  const auto group = c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), 0, 1);
  group->setBackend(c10::DeviceType::Meta, c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::make_intrusive<ServesNoCpu>(0, 1));
  const auto model = std::make_shared<TwoDevices>(at::kMeta, at::kMeta);
  DistributedDataParallel ddp(model, group, {.init_sync = false});
  ddp.register_comm_hook([](c10d::GradBucket& bucket) {
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get());
    future->markCompleted(bucket.getBuffer());
    return future;
  });
  ddp(torch::empty({3, 10}, at::kMeta)).sum().backward();
  CHECK(model->first->weight.grad().is_meta());
}

TEST_CASE("parameters on devices of two types are refused") {
  const auto failures = run_ranks(1, [](const Group& group) {
    DistributedDataParallel ddp(std::make_shared<TwoDevices>(at::kCPU, at::kMeta), group.process_group());
  });
  CHECK(message_of(failures[0]) ==
        "DistributedDataParallel: the parameters are on devices of several types (cpu, meta); move the "
        "module to one "
        "type of device");
}

TEST_CASE("init_sync takes over rank 0's values, and can be left out") {
  run_ranks_to_success(2, [](const Group& group) {
    const auto value = [&](bool init_sync) {
      torch::nn::BatchNorm1d model(2);
      {
        const torch::NoGradGuard no_grad;
        model->weight.fill_(group.rank());
        model->running_mean.fill_(group.rank());
      }
      DistributedDataParallel ddp(model, group.process_group(), {.init_sync = init_sync});
      return std::pair(model->weight[0].item<float>(), model->running_mean[0].item<float>());
    };
    const auto own = static_cast<float>(group.rank());
    CHECK_IN_RANK(value(true) == std::pair(0.0F, 0.0F));
    CHECK_IN_RANK(value(false) == std::pair(own, own));
  });
}

TEST_CASE("broadcast_buffers decides whether ranks keep running statistics of their own") {
  run_ranks_to_success(2, [](const Group& group) {
    const auto mean_after_two_forwards = [&](bool broadcast_buffers) {
      torch::nn::BatchNorm1d model(torch::nn::BatchNormOptions(2).momentum(1.0));
      DistributedDataParallel ddp(model, group.process_group(), {.broadcast_buffers = broadcast_buffers});
      const Tensor input = torch::full({4, 2}, static_cast<double>(1 + group.rank()));
      ddp(input).sum().backward();
      const float own = model->running_mean[0].item<float>();
      ddp.module()->eval();
      ddp(input);
      return std::pair(own, model->running_mean[0].item<float>());
    };
    const auto own = static_cast<float>(1 + group.rank());
    CHECK_IN_RANK(mean_after_two_forwards(true) == std::pair(own, 1.0F));
    CHECK_IN_RANK(mean_after_two_forwards(false) == std::pair(own, own));
  });
}

// Each rank's running statistics are of its own batches: a bare module would be evaluated with other ones on
// every rank.
TEST_CASE("after sync_buffers all ranks evaluate one model") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::BatchNorm1d model(2);
    DistributedDataParallel ddp(model, group.process_group());
    for (int step = 0; step < 3; ++step) {
      ddp(torch::randn({8, 2}) * (1 + group.rank()) + group.rank()).sum().backward();
    }
    model->eval();
    const Tensor input = torch::ones({4, 2});
    const auto is_equal_everywhere = [&] {
      const std::vector<Tensor> all = all_gather(group, model(input).detach());
      return all[0].equal(all[1]);
    };
    CHECK_IN_RANK(!is_equal_everywhere());
    ddp.sync_buffers();
    CHECK_IN_RANK(is_equal_everywhere());
  });
}

TEST_CASE("gradient_as_bucket_view makes gradients views of the buckets") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(4, 2);
    DistributedDataParallel ddp(model, group.process_group(), {.gradient_as_bucket_view = true});
    for (int step = 0; step < 3; ++step) {
      for (auto& parameter : model->parameters()) {
        if (parameter.grad().defined()) parameter.mutable_grad().zero_();
      }
      ddp(torch::full({1, 4}, static_cast<double>(group.rank()))).sum().backward();
    }
    const auto storage = [](const Tensor& tensor) { return tensor.storage().data(); };
    CHECK_IN_RANK(storage(model->weight.grad()) == storage(model->bias.grad()));
    CHECK_IN_RANK(model->weight.grad().eq(0.5).all().item<bool>());
  });
}

TEST_CASE("ignored buffers stay each rank's own") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::BatchNorm1d model(2);
    {
      const torch::NoGradGuard no_grad;
      model->running_mean.fill_(group.rank());
      model->running_var.fill_(group.rank() + 5);
    }
    DistributedDataParallel ddp(model, group.process_group(), {.ignored = {"running_mean"}});
    CHECK_IN_RANK(model->running_mean[0].item<float>() == static_cast<float>(group.rank()));
    CHECK_IN_RANK(model->running_var[0].item<float>() == 5);
  });
}

// A hook written against c10d's interface, with a state of its own.
class Counting final : public c10d::CppCommHookInterface<std::pair<Group, int*>> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    ++*state_.second;
    return allreduce_hook(state_.first)(bucket);
  }
};

TEST_CASE("a hook of c10d's own kind can be registered") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    DistributedDataParallel ddp(model, group.process_group());
    int reductions = 0;
    ddp.register_comm_hook(std::make_unique<Counting>(std::pair(group, &reductions)));
    (static_cast<double>(group.rank()) * ddp(torch::ones({1, 1}))).sum().backward();
    CHECK_IN_RANK(model->bias.grad().item<float>() == 0.5F);
    CHECK_IN_RANK(reductions == 1);
  });
}

TEST_CASE("a hook that throws ends backward with its words") {
  const auto failures = run_ranks(1, [](const Group& group) {
    DistributedDataParallel ddp(torch::nn::Linear(1, 1), group.process_group());
    ddp.register_comm_hook([](c10d::GradBucket&) -> c10::intrusive_ptr<c10::ivalue::Future> {
      throw Exception(ErrorCode::kUsage, "this hook does not like the bucket");
    });
    ddp(torch::ones({1, 1})).sum().backward();
  });
  CHECK(message_of(failures[0]).find("this hook does not like the bucket") != std::string::npos);
}

TEST_CASE("join that is not enabled runs the loop and nothing else") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    DistributedDataParallel ddp(model, group.process_group());
    int steps = 0;
    ddp.join(
        [&] {
          ddp(torch::ones({1, 1})).sum().backward();
          ++steps;
        },
        {.enable = false});
    CHECK_IN_RANK(steps == 1);
  });
}

TEST_CASE("with static_graph the first backward has to reduce, and later ones may accumulate before") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    DistributedDataParallel ddp(model, group.process_group(), {.static_graph = true});
    const auto backward = [&] {
      (static_cast<double>(group.rank()) * ddp(torch::ones({1, 1}))).sum().backward();
    };
    try {
      const auto guard = ddp.no_sync();
      backward();
      CHECK_IN_RANK(!"a first backward without a reduction was taken");
    } catch (const Exception& error) {
      CHECK_IN_RANK(
          std::string(error.what()) ==
          "DistributedDataParallel: static_graph learns the graph from the first backward, which has to "
          "reduce; make the first one without no_sync");
    }
    for (int step = 0; step < 4; ++step) {
      model->zero_grad();
      if (step > 0) {
        const auto guard = ddp.no_sync();
        backward();
      }
      backward();
      CHECK_IN_RANK(model->bias.grad().item<float>() == (step > 0 ? 1.0F : 0.5F));
    }
  });
}

TEST_CASE("without init_sync nothing is sent, also where reductions are delayed") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    const float own = static_cast<float>(group.rank());
    {
      const torch::NoGradGuard no_grad;
      model->bias.fill_(own);
    }
    DistributedDataParallel ddp(
        model, group.process_group(),
        {.init_sync = false, .delay_all_reduce = {"bias"}, .reduce_delayed_when_ready = "bias"});
    CHECK_IN_RANK(model->bias.item<float>() == own);
    DistributedDataParallel synced(model, group.process_group(),
                                   {.delay_all_reduce = {"bias"}, .reduce_delayed_when_ready = "bias"});
    CHECK_IN_RANK(model->bias.item<float>() == 0);
  });
}

TEST_CASE("a bucket order that is set is kept, before the first step and after it") {
  const int steps_before = GENERATE(0, 1, 2);
  run_ranks_to_success(2, [&](const Group& group) {
    torch::nn::Sequential model(torch::nn::Linear(2, 2), torch::nn::Linear(2, 1));
    DistributedDataParallel ddp(model, group.process_group());
    for (int step = 0; step < steps_before; ++step) ddp(torch::ones({1, 2})).sum().backward();
    const BucketOrder each_alone = {{0}, {1}, {2}, {3}};
    ddp.set_bucket_order(each_alone);
    for (int step = 0; step < 2; ++step) ddp(torch::ones({1, 2})).sum().backward();
    CHECK_IN_RANK(ddp.bucket_order() == each_alone);
  });
}

TEST_CASE("post-local SGD averages gradients over the subgroup") {
  run_ranks_to_success(2, [](const Group& group) {
    torch::nn::Linear model(1, 1);
    DistributedDataParallel ddp(model, group.process_group());
    ddp.register_comm_hook(post_local_sgd_hook({group, group, {.start_step = 1}}));
    for (int step = 0; step < 3; ++step) {
      model->zero_grad();
      (static_cast<double>(group.rank()) * ddp(torch::ones({1, 1}))).sum().backward();
      CHECK_IN_RANK(model->bias.grad().item<float>() == 0.5F);
    }
  });
}

}  // namespace
}  // namespace ddprun
