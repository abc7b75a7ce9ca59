#include "tests/bench/gpu/training.h"

#include "tests/bench/ddp/models.h"
#include "worker/models/registry.h"
#include <ddprun/autocast.h>
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/optim.h>
#include <ddprun/seed.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun::bench {
namespace {

const FusedSgdOptions kSgd{.lr = 0.01, .momentum = 0.9};

/// A model of the trainer, as the workloads of the DDP benchmark are.
struct TrainersModel final : Model {
  explicit TrainersModel(std::shared_ptr<ddprun::Model> model)
      : inside(register_module("inside", std::move(model))) {}
  torch::Tensor forward(const torch::Tensor& input) override { return inside->forward(input); }
  std::shared_ptr<ddprun::Model> inside;
};

/// What a model of that name is fed: gpu_step.py has the same.
DataShape data_for(const std::string& name, const at::Device& device) {
  const bool is_small = device.is_cpu();  // where only this program is tried
  if (name == "gpt") {
    const std::int64_t tokens = is_small ? 32 : 256;
    return {.tensors = {{"tokens", {tokens}, at::kLong}, {"next", {tokens}, at::kLong}}, .classes = 65};
  }
  const bool is_digit = name == "mlp" || name == "two_conv" || name == "mnist_cnn";
  const std::int64_t side = is_digit ? 28 : is_small ? 32 : 224;
  const std::int64_t channels = is_digit ? 1 : 3;
  return {.tensors = {{"image", {channels, side, side}}, {"label", {}, at::kLong}}, .classes = 10};
}

Workload make_model_and_batch(const std::string& name, std::int64_t batch, const at::Device& device) {
  if (name == "resnet18") return make_workload(name, batch);
  ModelRegistry models("model");
  models::register_models(models);
  const Options options(
      R"({"hidden": [256, 128], "dropout": 0, "patch_size": 16, "layers": 6, "heads": 6, "width": 384, "bias": false})");
  const DataShape data = data_for(name, device);
  const auto sizes = [&](const TensorShape& shape) {
    std::vector<std::int64_t> all = shape.sizes;
    all.insert(all.begin(), batch);
    return all;
  };
  const std::vector<std::int64_t> input = sizes(data.tensors[0]);
  return {.model = std::make_shared<TrainersModel>(models.at(name).make(options, data)),
          .input = data.tensors[0].dtype == at::kLong ? torch::randint(data.classes, input, at::kLong)
                                                      : torch::randn(input),
          .target = torch::randint(data.classes, sizes(data.tensors[1]))};
}

// Written anew, as Python's to(memory_format=…) does: contiguous(…) leaves the strides of a 1×1 filter as they
// are, and a fused step wants those of its gradient.
at::Tensor in_channels_last(const at::Tensor& tensor) {
  return at::empty_like(tensor, tensor.options(), at::MemoryFormat::ChannelsLast).copy_(tensor);
}

void use_channels_last(Workload& workload) {
  const at::NoGradGuard no_grad;
  if (workload.input.dim() == 4) workload.input = in_channels_last(workload.input);
  for (at::Tensor& parameter : workload.model->parameters()) {
    if (parameter.dim() == 4) parameter.set_data(in_channels_last(parameter));
  }
}

struct State {
  State(const Context& context, Workload made, const std::set<std::string>& how)
      : workload(std::move(made)), device(context.device()), bf16(how.contains("bf16")) {
    workload.model->to(device);
    workload.input = workload.input.to(device);
    workload.target = workload.target.to(device);
    if (how.contains("channels_last")) use_channels_last(workload);
    if (how.contains("ddp")) ddp.emplace(workload.model, context);
    optimizer.emplace(workload.model->parameters(), kSgd);
  }

  at::Tensor forward() {
    std::optional<AutocastGuard> autocast;
    if (bf16) autocast.emplace(device.type(), at::kBFloat16);
    const at::Tensor output = ddp ? (*ddp)(workload.input) : workload.model->forward(workload.input);
    return torch::cross_entropy_loss(output.flatten(0, -2), workload.target.flatten());
  }

  void step() {
    const at::Tensor loss = forward();
    loss.backward();
    optimizer->step();
    optimizer->zero_grad();
    last_loss = loss.detach();
  }

  Workload workload;
  at::Device device;
  bool bf16;
  std::optional<DistributedDataParallel<std::shared_ptr<Model>>> ddp;
  std::optional<FusedSgd> optimizer;
  at::Tensor last_loss;
};

}  // namespace

Training make_training(const Context& context, const std::string& model, std::int64_t batch,
                       const std::set<std::string>& how) {
  const bool in_graph = how.contains("graph");
  if (in_graph && !context.device().is_cuda()) throw LeftOut("CUDA graphs need a GPU");
  seed_all_devices(1);
  const auto state =
      std::make_shared<State>(context, make_model_and_batch(model, batch, context.device()), how);
  Step step = [state] { state->step(); };
  if (in_graph) step = record_in_graph(std::move(step));
  return {.step = std::move(step), .loss = [state] { return state->last_loss.item<double>(); }};
}

}  // namespace ddprun::bench
