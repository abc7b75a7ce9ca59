// Reads recipes, one JSON object a line: the .pt file "inputs" holds parameters and the gradients of each
// step; the recipe says what is done with them. Writes what came of it to the .pt file "outputs", for
// optim_test.py. Its only argument is the device, else the CPU.
#include "worker/runtime/comm/gpu/plugin.h"
#include <ddprun/autocast.h>
#include <ddprun/averaged_model.h>
#include <ddprun/checkpoint.h>
#include <ddprun/clip_grad.h>
#include <ddprun/grad_scaler.h>
#include <ddprun/init.h>
#include <ddprun/optim.h>
#include <ddprun/pt_file.h>
#include <ddprun/zero_redundancy_optimizer.h>

#include <nlohmann/json.hpp>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>

namespace ddprun {
namespace {

using nlohmann::json;

std::vector<at::Tensor> tensors_of(const PtValue& list) {
  std::vector<at::Tensor> tensors;
  for (const PtValue& value : list.as_sequence()) tensors.push_back(value.as_tensor());
  return tensors;
}

PtList list_of(const std::vector<at::Tensor>& tensors) {
  PtList list;
  for (const at::Tensor& tensor : tensors) list.items.emplace_back(tensor.detach());
  return list;
}

at::Device device = at::kCPU;

// The ranks, where there are several.
std::optional<Context> world;

// A module that holds the parameters, and a buffer that counts.
struct Holder final : torch::nn::Module {
  explicit Holder(const std::vector<at::Tensor>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      parameters_.push_back(register_parameter("p" + std::to_string(i),
                                               values[i].to(device, torch::kFloat, false, /*copy=*/true)));
    }
    mean = register_buffer("mean", torch::zeros({3}, device));
    count = register_buffer("count", torch::zeros({}, at::TensorOptions(torch::kLong).device(device)));
  }
  std::vector<at::Tensor> parameters_;
  at::Tensor mean, count;
};

template <class Optimizer, class Options, class Read>
std::unique_ptr<FusedOptimizer> make_grouped(const std::vector<at::Tensor>& parameters, const json& groups,
                                             Read read) {
  std::vector<ParameterGroup<Options>> made;
  auto next = parameters.begin();
  for (const json& group : groups) {
    const auto end = next + group.at("count").get<std::ptrdiff_t>();
    Options options;
    options.lr = group.at("lr");
    options.weight_decay = group.value("weight_decay", 0.0);
    options.maximize = group.value("maximize", false);
    read(options, group);
    made.push_back({{next, end}, options});
    next = end;
  }
  if (world) return zero_redundancy_optimizer<Optimizer>(*world, made);
  return std::make_unique<Optimizer>(std::move(made));
}

std::unique_ptr<FusedOptimizer> make_optimizer(const json& recipe,
                                               const std::vector<at::Tensor>& parameters) {
  const std::string name = recipe.at("optimizer");
  const json& groups = recipe.at("groups");
  if (name == "SGD") {
    return make_grouped<FusedSgd, FusedSgdOptions>(parameters, groups, [](auto& o, const json& g) {
      o.momentum = g.value("momentum", 0.0);
      o.dampening = g.value("dampening", 0.0);
      o.nesterov = g.value("nesterov", false);
    });
  }
  if (name == "Adagrad") {
    return make_grouped<FusedAdagrad, FusedAdagradOptions>(parameters, groups, [](auto& o, const json& g) {
      o.lr_decay = g.value("lr_decay", 0.0);
      o.initial_accumulator_value = g.value("initial_accumulator_value", 0.0);
      o.eps = g.value("eps", 1e-10);
    });
  }
  if (name == "RMSprop") {
    return make_grouped<Rmsprop, RmspropOptions>(parameters, groups, [](auto& o, const json& g) {
      o.momentum = g.value("momentum", 0.0);
      o.alpha = g.value("alpha", 0.99);
      o.centered = g.value("centered", false);
    });
  }
  return make_grouped<FusedAdam, FusedAdamOptions>(parameters, groups, [&](auto& o, const json& g) {
    o.amsgrad = g.value("amsgrad", false);
    o.decoupled_weight_decay = name == "AdamW";
  });
}

// Everything that a recipe trains with.
struct Training {
  explicit Training(const json& json_, const std::vector<at::Tensor>& values)
      : recipe(json_),
        model(values),
        optimizer(make_optimizer(recipe, model.parameters_)),
        scaler({.init_scale = recipe.value("init_scale", 1024.0),
                .growth_interval = 3,
                .enabled = recipe.contains("init_scale")}),
        average(std::make_shared<Holder>(values), average_options()) {}

  [[nodiscard]] AveragedModelOptions average_options() const {
    AveragedModelOptions options;
    options.decay =
        recipe.at("decay").is_null() ? std::nullopt : std::optional(recipe.at("decay").get<double>());
    options.use_buffers = recipe.at("use_buffers");
    return options;
  }

  void set_gradients(const std::vector<at::Tensor>& gradients) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const bool has_gradient = gradients[i].numel() > 0;
      model.parameters_[i].mutable_grad() =
          has_gradient ? gradients[i].to(device) * scaler.get_scale() : at::Tensor();
    }
  }

  void step(const std::vector<at::Tensor>& gradients) {
    if (scaler.is_enabled()) (void)scaler.scale(at::ones({}, device));
    set_gradients(gradients);
    if (recipe.contains("max_norm") || recipe.contains("clip_value")) scaler.unscale_(*optimizer);
    if (recipe.contains("max_norm")) {
      const json& norm_type = recipe.at("norm_type");  // JSON has no infinity
      norms.push_back(clip_grad_norm_(model.parameters_, recipe.at("max_norm"),
                                      norm_type.is_null() ? INFINITY : norm_type.get<double>()));
    }
    if (recipe.contains("clip_value")) clip_grad_value_(model.parameters_, recipe.at("clip_value"));
    scaler.step(*optimizer);
    scaler.update();
    scales.items.emplace_back(scaler.get_scale());
    model.mean.add_(0.1);
    model.count.add_(1);
    average.update_parameters(model);
  }

  [[nodiscard]] PtDict state() const {
    PtDict file;
    file.set("model", state_dict(model));
    if (world) dynamic_cast<ZeroRedundancyOptimizer&>(*optimizer).consolidate_state(0);
    if (!world || world->rank() == 0) file.set("optimizer", state_dict(*optimizer));
    file.set("scaler", state_dict(scaler));
    file.set("average", state_dict(average));
    return file;
  }
  void load(const PtDict& file) {
    load_state_dict(model, file.at("model").as_dict());
    load_state_dict(*optimizer, file.at("optimizer").as_dict());
    load_state_dict(scaler, file.at("scaler").as_dict());
    load_state_dict(average, file.at("average").as_dict());
  }

  json recipe;
  Holder model;
  std::unique_ptr<FusedOptimizer> optimizer;
  GradScaler scaler;
  AveragedModel average;
  std::vector<at::Tensor> norms;
  PtList scales;
};

void train(const json& recipe, const PtDict& inputs) {
  Training training(recipe, tensors_of(inputs.at("parameters")));
  const std::vector<PtValue>& steps = inputs.at("gradients").as_sequence();
  if (recipe.contains("load")) training.load(load_pt(recipe.at("load")).as_dict());
  for (std::size_t step = recipe.value("first", 0); step < steps.size(); ++step) {
    training.step(tensors_of(steps[step]));
    if (recipe.contains("save") && step + 1 == recipe.at("save_at"))
      save_pt(recipe.at("save"), training.state());
  }
  PtDict outputs = training.state();
  outputs.set("norms", list_of(training.norms));
  outputs.set("scales", training.scales);
  if (world) {
    PtList owners;
    for (const int owner : dynamic_cast<ZeroRedundancyOptimizer&>(*training.optimizer).owners())
      owners.items.emplace_back(owner);
    outputs.set("owners", std::move(owners));
  }
  const std::string suffix = world ? "." + std::to_string(world->rank()) : "";
  save_pt(recipe.at("outputs").get<std::string>() + suffix, outputs);
}

// What the operations of an autocast region give: their dtype is a part of it.
void autocast(const json& recipe, const PtDict& inputs) {
  std::vector<at::Tensor> t = tensors_of(inputs.at("parameters"));
  for (at::Tensor& tensor : t) tensor = tensor.to(device);
  std::vector<at::Tensor> results;
  const auto compute = [&] {
    const at::Tensor hidden = at::linear(t[0], t[1]);
    results.push_back(hidden);
    results.push_back(at::softmax(hidden, -1));
    results.push_back(at::mse_loss(hidden, t[2]));
    results.push_back(hidden + t[2]);
  };
  {
    const AutocastGuard guard(device.type());
    compute();
    {
      const AutocastGuard off(device.type(), std::nullopt, AutocastGuard::Mode::kDisabled);
      compute();
      const AutocastGuard half(device.type(), at::kHalf);
      compute();
    }
    compute();
  }
  compute();
  PtDict outputs;
  outputs.set("results", list_of(results));
  save_pt(recipe.at("outputs"), outputs);
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) try {
  torch::set_num_threads(1);
  if (argc > 1) ddprun::device = at::Device(argv[1]);
  std::string why;
  if (ddprun::device.is_cuda() && ddprun::runtime::open_gpu_plugin(&why) == 0)
    throw std::runtime_error("no GPU: " + why);
  if (std::getenv("WORLD_SIZE") != nullptr) {
    ddprun::world = ddprun::init({.device = ddprun::device.is_cpu() ? "cpu" : "cuda"});
    ddprun::device = ddprun::world->device();
  }
  for (std::string line; std::getline(std::cin, line);) {
    const auto recipe = nlohmann::json::parse(line);
    const ddprun::PtValue inputs = ddprun::load_pt(recipe.at("inputs"));
    if (recipe.at("what") == "autocast") {
      ddprun::autocast(recipe, inputs.as_dict());
    } else {
      ddprun::train(recipe, inputs.as_dict());
    }
  }
  if (ddprun::world) ddprun::world->shutdown();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "interop_optim: %s\n", error.what());
  return 1;
}
