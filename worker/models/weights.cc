#include "worker/models/weights.h"

#include <ddprun/checkpoint.h>
#include <ddprun/exception.h>
#include <ddprun/module_view.h>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace ddprun::models {
namespace {

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, name); });
}

std::string shape_words(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", at::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

// "" where `theirs` can be copied into `mine`. Another floating type can: copying converts it.
std::string misfit(const PtValue& theirs, const at::Tensor& mine) {
  if (!theirs.is_tensor()) return fmt::format("is {}, not a tensor", theirs.kind());
  const at::Tensor& tensor = theirs.as_tensor();
  if (tensor.sizes() == mine.sizes() && tensor.is_floating_point() == mine.is_floating_point()) return "";
  return fmt::format("is {}, this model has {}", shape_words(tensor), shape_words(mine));
}

bool holds_tensors(const PtValue& value) {
  if (!value.is_dict() || value.as_dict().entries.empty()) return false;
  const auto& entries = value.as_dict().entries;
  return std::all_of(entries.begin(), entries.end(), [](const auto& entry) {
    return std::holds_alternative<std::string>(entry.first.alternatives()) && entry.second.is_tensor();
  });
}

PtDict without_prefix(const PtDict& state, const std::string& prefix) {
  PtDict out;
  out.ordered = state.ordered;
  for (const auto& [name, value] : state.entries) {
    if (!name.as_string().starts_with(prefix)) return state;
    out.add(name.as_string().substr(prefix.size()), value);
  }
  return out;
}

/// What of a state dict goes into a model, what does not, and why.
class WeightsPlan {
 public:
  WeightsPlan(const PtDict& mine, const PtDict& theirs, const std::vector<std::string>& may_differ)
      : may_differ_(may_differ) {
    std::map<std::string, const PtValue*> left;
    for (const auto& [name, value] : theirs.entries) left[name.as_string()] = &value;
    for (const auto& [key, value] : mine.entries) {
      const std::string& name = key.as_string();
      const auto found = left.find(name);
      note(name);
      if (found == left.end()) {
        if (name.ends_with(".num_batches_tracked")) continue;
        keep(name, "is missing");
        continue;
      }
      const std::string wrong = misfit(*found->second, value.as_tensor());
      if (wrong.empty()) {
        copies_.emplace_back(value.as_tensor(), found->second->as_tensor());
      } else {
        keep(name, wrong);
      }
      left.erase(found);
    }
    for (const auto& [name, value] : left) {
      note(name);
      if (!matches_any(may_differ_, name)) problems_.push_back(name + " is not in this model");
    }
    for (const std::string& pattern : may_differ_)
      if (!used_.contains(pattern)) problems_.push_back(fmt::format("\"{}\" matches no name", pattern));
  }

  std::vector<std::string> carry_out() {
    if (!problems_.empty()) {
      throw Exception(ErrorCode::kConfig,
                      fmt::format("the weights do not fit the model: {}; take weights of this model, or let "
                                  "these names differ",
                                  fmt::join(problems_, "; ")));
    }
    const at::NoGradGuard no_grad;
    for (auto& [mine, theirs] : copies_) mine.copy_(theirs);
    return std::move(kept_);
  }

 private:
  void note(const std::string& name) {
    for (const std::string& pattern : may_differ_)
      if (matches(pattern, name)) used_.insert(pattern);
  }

  void keep(const std::string& name, const std::string& why) {
    if (matches_any(may_differ_, name)) {
      kept_.push_back(name);
    } else {
      problems_.push_back(name + " " + why);
    }
  }

  const std::vector<std::string>& may_differ_;
  std::set<std::string> used_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;
  std::vector<std::string> kept_;
  std::vector<std::string> problems_;
};

std::shared_ptr<torch::nn::Module> module_at(torch::nn::Module& model, const std::string& name) {
  for (const auto& item : model.named_modules("", /*include_self=*/false))
    if (item.key() == name) return item.value();
  return nullptr;
}

// The same module with other tensors, because C++ offers no way to a member that holds it.
void renew_head(Model& model, std::int64_t classes) {
  const auto head = module_at(model, model.head());
  auto* linear = head == nullptr ? nullptr : head->as<torch::nn::LinearImpl>();
  if (linear == nullptr) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("the weights are for another number of classes than {}, and this model's head, "
                    "\"{}\", cannot be made anew; take weights for as many",
                    classes, model.head()));
  }
  const at::NoGradGuard no_grad;
  linear->options.out_features(classes);
  linear->weight.set_data(at::empty({classes, linear->options.in_features()}, linear->weight.options()));
  if (linear->bias.defined()) linear->bias.set_data(at::empty({classes}, linear->bias.options()));
  linear->reset_parameters();
}

// 0 where the state dict has no such head.
std::int64_t classes_in(const PtDict& state, const std::string& head) {
  const PtValue* weight = head.empty() ? nullptr : state.find(head + ".weight");
  if (weight == nullptr || !weight->is_tensor() || weight->as_tensor().dim() != 2) return 0;
  return weight->as_tensor().size(0);
}

/// AveragedModel's entries less their prefix, and without its count.
PtDict averaged_state(const PtDict& average) {
  constexpr std::string_view kPrefix = "module.";
  PtDict state;
  state.ordered = true;
  for (const auto& [name, value] : average.entries) {
    const std::string& text = name.as_string();
    if (text.starts_with(kPrefix)) state.add(text.substr(kPrefix.size()), value);
  }
  return state;
}

}  // namespace

PtDict find_state_dict(const PtValue& value, const std::string& file) {
  const PtValue* found = holds_tensors(value) ? &value : nullptr;
  for (const char* key : {"model", "state_dict"}) {
    if (found != nullptr || !value.is_dict()) break;
    const PtValue* inner = value.as_dict().find(key);
    if (inner != nullptr && holds_tensors(*inner)) found = inner;
  }
  if (found == nullptr) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("{} has no weights: expected a state dict (names and tensors), alone or under "
                    "\"model\" or \"state_dict\", got {}",
                    file, value.kind()));
  }
  return without_prefix(found->as_dict(), "module.");
}

std::optional<WeightsOf> to_weights_of(const std::string& word) {
  if (word == "auto") return WeightsOf::kAuto;
  if (word == "average") return WeightsOf::kAverage;
  if (word == "model") return WeightsOf::kModel;
  return std::nullopt;
}

ChosenWeights choose_weights(const PtValue& value, const std::string& file, WeightsOf which) {
  const bool is_own = value.is_dict() && value.as_dict().find("ddprun") != nullptr;
  const PtValue* average = is_own ? value.as_dict().find("ema") : nullptr;
  if (which == WeightsOf::kAverage && average == nullptr) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("{} has no average of the weights, which checkpoints of a job with "
                                "/train/ema_decay have; take those of the model",
                                file));
  }
  if (which == WeightsOf::kModel || average == nullptr) return {find_state_dict(value, file), false};
  return {averaged_state(average->as_dict()), true};
}

std::vector<std::string> load_weights(torch::nn::Module& model, const PtDict& state,
                                      const std::vector<std::string>& may_differ) {
  return WeightsPlan(state_dict(model), state, may_differ).carry_out();
}

std::string foreign_prefix(const PtDict& state, const PtDict& mine) {
  if (state.entries.empty()) return {};
  const std::string& first = state.entries.front().first.as_string();
  const std::string prefix = first.substr(0, first.find('.') + 1);
  if (prefix.empty()) return {};
  bool is_fitting = false;
  for (const auto& [key, value] : state.entries) {
    const std::string& name = key.as_string();
    if (!name.starts_with(prefix) || mine.find(name) != nullptr) return {};
    is_fitting = is_fitting || mine.find(name.substr(prefix.size())) != nullptr;
  }
  return is_fitting ? prefix : std::string();
}

std::shared_ptr<Model> make_with_weights(const ModelFactory& make, const Options& options,
                                         const DataShape& data, const PtDict& given,
                                         const std::vector<std::string>& may_differ, std::string* prefix) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor before = generator.get_state();
  std::shared_ptr<Model> model = make(options, data);
  const std::string foreign = foreign_prefix(given, state_dict(*model));
  if (prefix != nullptr) *prefix = foreign;
  const PtDict state = without_prefix(given, foreign);
  const std::int64_t theirs = classes_in(state, model->head());
  const bool has_other_classes = theirs > 0 && data.classes > 0 && theirs != data.classes &&
                                 !matches_any(may_differ, model->head() + ".weight");
  if (has_other_classes) {
    DataShape other = data;
    other.classes = theirs;
    generator.set_state(before);
    model = make(options, other);
  }
  load_weights(*model, state, may_differ);
  if (has_other_classes) renew_head(*model, data.classes);
  return model;
}

std::vector<std::string> freeze(torch::nn::Module& model, const std::vector<std::string>& patterns) {
  const std::vector<ModuleView::Parameter> parameters = view_of(model).parameters;
  std::vector<std::string> frozen;
  for (const std::string& pattern : patterns) {
    const bool is_used = std::any_of(parameters.begin(), parameters.end(),
                                     [&](const auto& parameter) { return matches(pattern, parameter.name); });
    if (!is_used) {
      throw Exception(ErrorCode::kConfig,
                      fmt::format("nothing to freeze: \"{}\" matches no parameter; there are {}, …, {}",
                                  pattern, parameters.front().name, parameters.back().name));
    }
  }
  for (const auto& parameter : parameters)
    if (matches_any(patterns, parameter.name)) frozen.push_back(parameter.name);
  if (frozen.size() == parameters.size()) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("all {} parameters would be frozen, and nothing would learn; leave some out",
                                parameters.size()));
  }
  for (const auto& parameter : parameters)
    if (matches_any(patterns, parameter.name)) at::Tensor(parameter.tensor).set_requires_grad(false);
  return frozen;
}

}  // namespace ddprun::models
