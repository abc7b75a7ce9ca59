#include "tests/interop/ddp/recipe.h"

#include <torch/optim/sgd.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace ddprun::interop {
namespace {

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<torch::Tensor> all_tensors(const torch::nn::Module& module) {
  const ModuleView view = view_of(module);
  std::vector<torch::Tensor> tensors;
  for (const auto& parameter : view.parameters) tensors.push_back(parameter.tensor.detach());
  for (const auto& [name, buffer] : view.buffers()) tensors.push_back(buffer);
  return tensors;
}

std::vector<std::int64_t> with_rows(std::int64_t rows, const nlohmann::json& shape) {
  std::vector<std::int64_t> sizes = {rows};
  for (const auto& size : shape) sizes.push_back(size.get<std::int64_t>());
  return sizes;
}

std::optional<at::ScalarType> dtype_of(const nlohmann::json& name) {
  if (name == "float16") return torch::kHalf;
  if (name == "bfloat16") return torch::kBFloat16;
  if (name == "float32") return torch::kFloat32;
  return std::nullopt;
}

DistributedDataParallelOptions options_of(const nlohmann::json& json) {
  DistributedDataParallelOptions options;
  if (json.contains("bucket_cap_mb")) options.bucket_cap_mb = json.at("bucket_cap_mb").get<double>();
  options.bucket_cap_mb_list = json.value("bucket_cap_mb_list", std::vector<double>{});
  options.find_unused_parameters = json.value("find_unused_parameters", false);
  options.skip_all_reduce_unused_params = json.value("skip_all_reduce_unused_params", false);
  options.static_graph = json.value("static_graph", false);
  options.gradient_as_bucket_view = json.value("gradient_as_bucket_view", false);
  options.broadcast_buffers = json.value("broadcast_buffers", true);
  if (json.contains("mixed_precision")) {
    const auto& dtypes = json.at("mixed_precision");
    options.mixed_precision = {.param_dtype = dtype_of(dtypes.at(0)),
                               .reduce_dtype = dtype_of(dtypes.at(1)),
                               .buffer_dtype = dtype_of(dtypes.at(2))};
  }
  return options;
}

}  // namespace

Recipe load_recipe(const std::string& folder) {
  const auto json = nlohmann::json::parse(read_bytes(folder + "/case.json"));
  return {.json = json,
          .model = json.at("model"),
          .steps = json.at("steps"),
          .batch = json.at("batch"),
          .accumulate = json.at("accumulate"),
          .set_to_none = json.at("set_to_none"),
          .uneven = json.value("uneven", false),
          .last_step = json.value("last_step", false),
          .dropped_steps = json.value("dropped_steps", std::int64_t{0}),
          .amp = dtype_of(json.at("amp")),
          .options = options_of(json.at("ddp"))};
}

void load_tensors(torch::nn::Module& module, const std::string& path) {
  const torch::NoGradGuard no_grad;
  const std::string bytes = read_bytes(path);
  std::size_t offset = 0;
  for (torch::Tensor& tensor : all_tensors(module)) {
    tensor.copy_(
        torch::from_blob(const_cast<char*>(bytes.data()) + offset, tensor.sizes(), tensor.options()));
    offset += tensor.nbytes();
  }
  if (offset != bytes.size()) throw std::runtime_error(path + " is of another model");
}

void save_tensors(const torch::nn::Module& module, const std::string& path,
                  const std::vector<torch::Tensor>& more) {
  std::ofstream file(path, std::ios::binary);
  std::vector<torch::Tensor> tensors = all_tensors(module);
  tensors.insert(tensors.end(), more.begin(), more.end());
  for (const torch::Tensor& tensor : tensors) {
    const torch::Tensor local = tensor.cpu().contiguous();
    file.write(static_cast<const char*>(local.const_data_ptr()),
               static_cast<std::streamsize>(local.nbytes()));
  }
}

Batches::Batches(const std::string& folder, const Recipe& recipe, const Context& context)
    : batch_(recipe.batch), rank_(context.rank()), world_(context.world_size()) {
  const std::int64_t rows = recipe.json.at("rows");
  const auto dtype = recipe.json.at("words").is_null() ? torch::kFloat32 : torch::kInt64;
  const std::string inputs = read_bytes(folder + "/inputs.bin");
  const std::string targets = read_bytes(folder + "/targets.bin");
  inputs_ =
      torch::from_blob(const_cast<char*>(inputs.data()), with_rows(rows, recipe.json.at("shape")), dtype)
          .clone()
          .to(context.device());
  targets_ =
      torch::from_blob(const_cast<char*>(targets.data()), {rows}, torch::kInt64).clone().to(context.device());
}

std::pair<torch::Tensor, torch::Tensor> Batches::at(std::int64_t forward) const {
  const std::int64_t first = (forward * world_ + rank_) * batch_;
  return {inputs_.narrow(0, first, batch_), targets_.narrow(0, first, batch_)};
}

Stepper::Stepper(const Recipe& recipe, std::vector<torch::Tensor> parameters)
    : set_to_none_(recipe.set_to_none),
      scaler_({.init_scale = 1 << 20, .growth_interval = 4, .enabled = recipe.amp.has_value()}) {
  const auto& json = recipe.json.at("optimizer");
  const std::string kind = json.at("kind");
  const double lr = json.at("lr");
  const double decay = json.value("weight_decay", 0.0);
  if (kind == "stock_sgd") {
    stock_ = std::make_unique<torch::optim::SGD>(std::move(parameters), torch::optim::SGDOptions(lr));
  } else if (kind == "sgd") {
    fused_ = std::make_unique<FusedSgd>(std::move(parameters),
                                        FusedSgdOptions{.lr = lr,
                                                        .momentum = json.value("momentum", 0.0),
                                                        .weight_decay = decay,
                                                        .nesterov = json.value("nesterov", false)});
  } else {
    fused_ = std::make_unique<FusedAdam>(
        std::move(parameters),
        FusedAdamOptions{.lr = lr, .weight_decay = decay, .decoupled_weight_decay = kind == "adamw"});
  }
}

void Stepper::average_with(const Recipe& recipe, const Group& group) {
  const auto& json = recipe.json.at("averager");
  if (json.is_null()) return;
  const std::int64_t warmup = json.at("warmup");
  if (json.contains("period")) {
    averager_ = std::make_unique<PeriodicModelAverager>(
        group, PeriodicModelAveragerOptions{.period = json.at("period"), .warmup_steps = warmup});
  } else {
    std::vector<HierarchicalModelAverager::Level> levels;
    for (const auto& level : json.at("levels"))
      levels.push_back({level.at(0), group.size() / level.at(1).get<int>()});
    averager_ = std::make_unique<HierarchicalModelAverager>(group, levels, warmup);
  }
  local_ = std::move(fused_);
  fused_ = std::make_unique<PostLocalSgdOptimizer>(*local_, *averager_);
}

Joinable& Stepper::spread(const Recipe& recipe, const Group& group) {
  const auto& json = recipe.json.at("optimizer");
  auto zero = zero_redundancy_optimizer<FusedAdam>(
      group, fused_->parameters(),
      FusedAdamOptions{
          .lr = json.at("lr"), .weight_decay = json.at("weight_decay"), .decoupled_weight_decay = true});
  Joinable& joinable = *zero;
  fused_ = std::move(zero);
  return joinable;
}

void Stepper::step() {
  if (fused_) {
    scaler_.step(*fused_);
  } else {
    scaler_.step(*stock_);
  }
  scaler_.update();
}

void Stepper::zero_grad() {
  if (fused_) {
    fused_->zero_grad(set_to_none_ ? ZeroGrad::kReset : ZeroGrad::kInPlace);
  } else {
    stock_->zero_grad(set_to_none_);
  }
}

}  // namespace ddprun::interop
