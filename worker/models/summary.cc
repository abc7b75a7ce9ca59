#include "worker/models/summary.h"

#include <ddprun/module_view.h>

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

namespace ddprun::models {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;

/// A module with parameters of its own.
struct Owner {
  std::string name;
  const torch::nn::Module* module;
};

// "torch::nn::Conv2dImpl" → "Conv2d"
std::string kind_of(const torch::nn::Module& module) {
  std::string name = module.name();
  if (const auto colons = name.rfind("::"); colons != std::string::npos) name = name.substr(colons + 2);
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

bool is_counted(std::string_view operation) {
  static const std::set<std::string_view> kCounted = {
      "aten::conv2d",     "aten::linear",     "aten::addmm",    "aten::matmul",
      "aten::batch_norm", "aten::layer_norm", "aten::embedding"};
  return kCounted.contains(operation);
}

std::vector<std::int64_t> without_batch(const at::Tensor& tensor) {
  return tensor.dim() == 0 ? std::vector<std::int64_t>{} : tensor.sizes().slice(1).vec();
}

/// Watches the operations of one forward, and knows the modules by the memory of their parameters: a transposed
/// weight is still that weight.
class CostRecorder {
 public:
  explicit CostRecorder(const Model& model) {
    collect(model, "");
    current = this;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&CostRecorder::begin, &CostRecorder::end)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~CostRecorder() {
    at::removeCallback(handle_);
    current = nullptr;
  }
  CostRecorder(const CostRecorder&) = delete;
  CostRecorder& operator=(const CostRecorder&) = delete;

  std::vector<LayerCost> costs() {
    for (const Owner& owner : order_) cost_of(owner);  // those that nothing used directly
    return std::move(costs_);
  }

 private:
  /// An operation under way, the outermost that was recognised.
  struct Operation final : at::ObserverContext {
    std::optional<Owner> owner;  ///< none: an attention
    std::int64_t adds_per_output = 0;
    std::int64_t adds = 0;
  };

  void collect(const torch::nn::Module& module, const std::string& name) {
    const auto own = module.named_parameters(/*recurse=*/false);
    if (!own.is_empty()) order_.push_back({name, &module});
    for (const auto& parameter : own) owners_[parameter.value().const_data_ptr()].push_back({name, &module});
    for (const auto& child : module.named_children())
      collect(*child.value(), name.empty() ? child.key() : name + "." + child.key());
  }

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& operation) {
    return current == nullptr ? nullptr : current->begin_operation(operation);
  }
  static void end(const at::RecordFunction& operation, at::ObserverContext* context) {
    if (context != nullptr) current->end_operation(operation, static_cast<Operation&>(*context));
  }

  std::unique_ptr<Operation> begin_operation(const at::RecordFunction& operation) {
    if (is_inside_) return nullptr;
    const std::string_view name = operation.name();
    auto begun = std::make_unique<Operation>();
    if (name == "aten::scaled_dot_product_attention") {
      const at::Tensor query = operation.inputs()[0].toTensor();
      const at::Tensor key = operation.inputs()[1].toTensor();
      begun->adds = 2 * query.numel() * key.size(-2);
    } else if (is_counted(name)) {
      for (const c10::IValue& input : operation.inputs()) recognise(input, name, *begun);
      if (!begun->owner) return nullptr;
    } else {
      return nullptr;
    }
    is_inside_ = true;
    return begun;
  }

  void recognise(const c10::IValue& input, std::string_view name, Operation& begun) const {
    if (!input.isTensor() || !input.toTensor().defined()) return;
    const at::Tensor& tensor = input.toTensor();
    const auto found = owners_.find(tensor.const_data_ptr());
    if (found == owners_.end()) return;
    // A tied weight has several owners: a table that is looked up, and a layer that multiplies.
    const bool looks_up = name == "aten::embedding";
    const auto owner = std::find_if(found->second.begin(), found->second.end(), [&](const Owner& candidate) {
      return (candidate.module->as<torch::nn::EmbeddingImpl>() != nullptr) == looks_up;
    });
    begun.owner = owner == found->second.end() ? found->second.front() : *owner;
    if (tensor.dim() < 2 || looks_up) return;
    // addmm and matmul are given the weight transposed.
    const bool is_transposed = name == "aten::addmm" || name == "aten::matmul";
    begun.adds_per_output = tensor.numel() / tensor.size(is_transposed ? tensor.dim() - 1 : 0);
  }

  void end_operation(const at::RecordFunction& operation, const Operation& ended) {
    is_inside_ = false;
    const std::vector<c10::IValue>& outputs = operation.outputs();
    if (outputs.empty() || !outputs.front().isTensor()) return;
    const at::Tensor& output = outputs.front().toTensor();
    if (!ended.owner) {
      costs_.push_back({.kind = "attention", .output = without_batch(output), .multiply_adds = ended.adds});
      return;
    }
    LayerCost& cost = cost_of(*ended.owner);
    cost.output = without_batch(output);
    cost.multiply_adds += output.numel() * ended.adds_per_output;
  }

  LayerCost& cost_of(const Owner& owner) {
    const auto [place, is_new] = index_.try_emplace(owner.module, costs_.size());
    if (is_new) {
      LayerCost& cost = costs_.emplace_back();
      cost.name = owner.name;
      cost.kind = kind_of(*owner.module);
      for (const auto& parameter : owner.module->named_parameters(/*recurse=*/false))
        if (counted_.insert(parameter.value().unsafeGetTensorImpl()).second)
          cost.parameters += parameter.value().numel();
    }
    return costs_[place->second];
  }

  static thread_local CostRecorder* current;

  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
  bool is_inside_ = false;
  std::vector<Owner> order_;
  std::map<const void*, std::vector<Owner>> owners_;
  std::map<const torch::nn::Module*, std::size_t> index_;
  std::set<const c10::TensorImpl*> counted_;
  std::vector<LayerCost> costs_;
};

thread_local CostRecorder* CostRecorder::current = nullptr;

std::string grouped(std::int64_t number) {
  if (number < 1000) return std::to_string(number);
  return fmt::format("{},{:03}", grouped(number / 1000), number % 1000);
}

std::string rounded(std::int64_t number) {
  const auto value = static_cast<double>(number);
  if (value >= 1e9) return fmt::format("{:.2f} G", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.2f} M", value / 1e6);
  return value >= 1e3 ? fmt::format("{:.2f} k", value / 1e3) : std::to_string(number);
}

}  // namespace

std::vector<LayerCost> layer_costs(Model& model, const DataShape& data) {
  const bool was_training = model.is_training();
  std::vector<std::int64_t> sizes = data.tensors.at(0).sizes;
  sizes.insert(sizes.begin(), 1);
  const ModuleView view = view_of(model);
  const at::Device device = view.parameters.empty() ? at::kCPU : view.parameters.front().tensor.device();
  const at::Tensor sample = at::zeros(sizes, at::dtype(data.tensors.at(0).dtype).device(device));
  const at::NoGradGuard no_grad;
  model.eval();
  CostRecorder recorder(model);
  model.forward(sample);
  model.train(was_training);
  return recorder.costs();
}

std::string summary(Model& model, const DataShape& data) {
  const std::vector<LayerCost> costs = layer_costs(model, data);
  const LayerCost& widest = *std::max_element(
      costs.begin(), costs.end(), [](const auto& a, const auto& b) { return a.name.size() < b.name.size(); });
  const std::size_t width = std::max<std::size_t>(widest.name.size(), 5);
  std::string text = fmt::format("{:<{}}  {:<14}{:>18}{:>14}{:>14}\n", "layer", width, "kind", "output",
                                 "parameters", "mult-adds");
  std::int64_t parameters = 0;
  std::int64_t multiply_adds = 0;
  for (const LayerCost& cost : costs) {
    parameters += cost.parameters;
    multiply_adds += cost.multiply_adds;
    text += fmt::format("{:<{}}  {:<14}{:>18}{:>14}{:>14}\n", cost.name, width, cost.kind,
                        fmt::format("{}", fmt::join(cost.output, "×")), grouped(cost.parameters),
                        cost.multiply_adds == 0 ? "" : rounded(cost.multiply_adds));
  }
  double bytes = 0;
  for (const auto& parameter : view_of(model).parameters)
    bytes += static_cast<double>(parameter.tensor.nbytes());
  return text + fmt::format("total: {} parameters in {:.1f} MiB, {} multiply-adds a sample\n",
                            grouped(parameters), bytes / kMebibyte, rounded(multiply_adds));
}

}  // namespace ddprun::models
