#include "worker/runtime/ddp/optim/tensor_lists.h"
#include <ddprun/exception.h>
#include <ddprun/optim.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace ddprun {
namespace {

using ParameterState = FusedOptimizer::ParameterState;

// A fused kernel takes tensors of one device and dtype. Keyed so, the order of the calls is fixed.
using BatchKey = std::tuple<c10::DeviceType, c10::DeviceIndex, c10::ScalarType, bool>;

BatchKey key_of(const at::Tensor& tensor, bool is_first_step) {
  return {tensor.device().type(), tensor.device().index(), tensor.scalar_type(), is_first_step};
}

[[noreturn]] void refuse_state(const std::string& optimizer, std::size_t index, const std::string& why) {
  throw Exception(ErrorCode::kConfig,
                  fmt::format("optimizer state: parameter {} of {}: {}; is it of another model or optimizer?",
                              index, optimizer, why));
}

bool has_entry(const ParameterState& state, const std::string& name) {
  return std::any_of(state.begin(), state.end(), [&](const auto& entry) { return entry.first == name; });
}

std::string shape_text(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
}

// The entries of `state` must be exactly `names`, shaped like the parameter ("step" is a scalar).
void check_entries(const FusedOptimizer& optimizer, std::size_t index, const ParameterState& state,
                   const std::vector<std::string>& names) {
  if (state.empty()) return;
  const at::Tensor& parameter = optimizer.parameters()[index];
  for (const auto& [name, tensor] : state) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      refuse_state(optimizer.name(), index,
                   fmt::format("unknown entry \"{}\", expected {}", name, fmt::join(names, ", ")));
    }
    if (name == "step" ? tensor.numel() != 1 : tensor.sizes() != parameter.sizes()) {
      refuse_state(optimizer.name(), index,
                   fmt::format("\"{}\" has shape {}, the parameter {}", name, shape_text(tensor),
                               shape_text(parameter)));
    }
  }
  for (const std::string& name : names) {
    if (!has_entry(state, name))
      refuse_state(optimizer.name(), index, fmt::format("\"{}\" is missing", name));
  }
}

// By name: options that were changed since the first step may want fewer entries, or more than there are.
const at::Tensor& entry_of(const FusedOptimizer& optimizer, std::size_t index, const ParameterState& state,
                           const std::string& name) {
  for (const auto& [own_name, tensor] : state) {
    if (own_name == name) return tensor;
  }
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("optimizer: parameter {} of {} has no \"{}\", which its options did not want in its first "
                  "step and want now; set them before the first step",
                  index, optimizer.name(), name));
}

void check_trainable(const at::Tensor& parameter, std::size_t group) {
  if (!parameter.defined()) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("optimizer: group {} has a tensor that is not defined", group));
  }
  if (parameter.is_leaf() || parameter.retains_grad()) return;
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("optimizer: group {} has a tensor of shape {} that is computed from others, and its "
                  "gradient goes to them; give the parameters themselves",
                  group, shape_text(parameter)));
}

StepScale on_device(const StepScale& scale, const at::Device& device) {
  const auto moved = [&](const at::Tensor& tensor) {
    return tensor.defined() ? runtime::copied_to(device, tensor) : tensor;
  };
  return {moved(scale.grad_scale), moved(scale.found_inf)};
}

}  // namespace

void FusedOptimizer::append_group(std::vector<at::Tensor> parameters) {
  std::set<const void*> others, own;
  for (const at::Tensor& parameter : parameters_) others.insert(parameter.unsafeGetTensorImpl());
  for (at::Tensor& parameter : parameters) {
    check_trainable(parameter, group_sizes_.size());
    const void* identity = parameter.unsafeGetTensorImpl();
    if (others.contains(identity)) {
      throw Exception(
          ErrorCode::kConfig,
          fmt::format("optimizer: group {} has a parameter of shape {} that is in an earlier group; "
                      "each may be in one group only",
                      group_sizes_.size(), shape_text(parameter)));
    }
    // Tied weights: libtorch's parameters() has them twice, Python's once.
    if (own.insert(identity).second) parameters_.push_back(std::move(parameter));
  }
  group_sizes_.push_back(own.size());
  state_.resize(parameters_.size());
}

void FusedOptimizer::set_learning_rate(double learning_rate) {
  for (std::size_t group = 0; group < group_count(); ++group) set_learning_rate(group, learning_rate);
}

FusedOptimizer::Hyperparameters FusedOptimizer::hyperparameters(std::size_t group) const {
  Hyperparameters hyperparameters = own_hyperparameters(group);
  for (const auto& [name, value] : entries(group)) hyperparameters.emplace_back(name, value);
  return hyperparameters;
}

void FusedOptimizer::zero_grad(ZeroGrad how) {
  for (at::Tensor& parameter : parameters_) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) continue;
    if (how == ZeroGrad::kReset) {
      gradient.reset();
      continue;
    }
    if (gradient.grad_fn()) gradient = gradient.detach();
    gradient.zero_();
  }
}

at::Tensor FusedOptimizer::new_state(std::size_t /*group*/, const std::string& name,
                                     const at::Tensor& parameter) const {
  const at::TensorOptions options = parameter.options().requires_grad(false);
  return name == "step" ? at::zeros({}, options.dtype(at::kFloat)) : at::zeros_like(parameter, options);
}

ParameterState FusedOptimizer::make_state(std::size_t group, const at::Tensor& parameter) const {
  ParameterState state;
  for (std::string& name : state_names(group)) {
    at::Tensor tensor = new_state(group, name, parameter);
    if (tensor.defined()) state.emplace_back(std::move(name), std::move(tensor));
  }
  return state;
}

bool FusedOptimizer::update_sparse(std::size_t /*group*/, const at::Tensor& /*parameter*/,
                                   const at::Tensor& /*gradient*/, const StepScale& /*scale*/) {
  return false;
}

void FusedOptimizer::step(const StepScale& scale) { step_groups(scale, nullptr); }

void FusedOptimizer::step_some(const std::vector<at::Tensor>& parameters) {
  if (!can_step_in_parts()) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("optimizer: this {} steps all its parameters at once, not some", name()));
  }
  std::set<const void*> only;
  for (const at::Tensor& parameter : parameters) only.insert(parameter.unsafeGetTensorImpl());
  step_groups({}, &only);
}

// `only`: these tensors; null: all.
void FusedOptimizer::step_groups(const StepScale& scale, const std::set<const void*>* only) {
  const at::NoGradGuard no_grad;
  std::size_t first = 0;
  for (std::size_t group = 0; group < group_sizes_.size(); ++group) {
    step_group(group, first, scale, only);
    first += group_sizes_[group];
  }
}

void FusedOptimizer::step_group(std::size_t group, std::size_t first, const StepScale& scale,
                                const std::set<const void*>* only) {
  std::map<BatchKey, Batch> batches;
  const std::vector<std::string> names = state_names(group);
  for (std::size_t i = first; i < first + group_sizes_[group]; ++i) {
    const at::Tensor& parameter = parameters_[i];
    if (only != nullptr && !only->contains(parameter.unsafeGetTensorImpl())) continue;
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (gradient.is_sparse() &&
        update_sparse(group, parameter, gradient, on_device(scale, parameter.device())))
      continue;
    const bool is_first_step = state_[i].empty();
    if (is_first_step) state_[i] = make_state(group, parameter);
    Batch& batch = batches[key_of(parameter, is_first_step)];
    batch.is_first_step = is_first_step;
    batch.indices.push_back(i);
    batch.parameters.push_back(parameter);
    batch.gradients.push_back(gradient);
    if (state_[i].empty()) continue;
    batch.state.resize(names.size());
    for (std::size_t e = 0; e < names.size(); ++e)
      batch.state[e].push_back(entry_of(*this, i, state_[i], names[e]));
  }
  for (auto& [key, batch] : batches) {
    batch.scale = on_device(scale, batch.parameters.front().device());
    update(group, batch);
  }
}

void FusedOptimizer::make_all_states() {
  std::size_t index = 0;
  for (std::size_t group = 0; group < group_sizes_.size(); ++group) {
    for (std::size_t i = 0; i < group_sizes_[group]; ++i, ++index) {
      state_[index] = make_state(group, parameters_[index]);
    }
  }
}

void FusedOptimizer::decay_as_real(Batch& batch, bool maximize, double weight_decay) const {
  for (std::size_t i = 0; i < batch.parameters.size(); ++i) {
    if (!batch.parameters[i].is_conj()) continue;
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("optimizer: parameter {} of {} is a conjugate view, which cannot be taken for "
                    "pairs of real numbers in its own memory; give resolve_conj() of it",
                    batch.indices[i], name()));
  }
  const auto decay = [&] {
    if (weight_decay != 0)
      batch.gradients = at::_foreach_add(batch.gradients, batch.parameters, weight_decay);
  };
  const auto view = [](std::vector<at::Tensor>& tensors) {
    for (at::Tensor& tensor : tensors) {
      if (tensor.is_complex()) tensor = at::view_as_real(tensor);
    }
  };
  const bool decays_first = batch.parameters.front().is_cpu();
  if (maximize) batch.gradients = at::_foreach_neg(batch.gradients);
  if (decays_first) decay();
  for (at::Tensor& gradient : batch.gradients) gradient = gradient.resolve_conj();  // only read
  view(batch.parameters);
  view(batch.gradients);
  for (std::vector<at::Tensor>& entries : batch.state) view(entries);
  if (!decays_first) decay();
}

std::span<const at::Tensor> FusedOptimizer::parameters_of(std::size_t group) const {
  const auto sizes = group_sizes_.begin();
  const auto first = std::accumulate(sizes, sizes + static_cast<std::ptrdiff_t>(group), std::size_t{0});
  return std::span(parameters_).subspan(first, group_sizes_[group]);
}

void FusedOptimizer::forget(const Batch& batch) {
  for (const std::size_t index : batch.indices) state_[index].clear();
}

void FusedOptimizer::check_state(const std::vector<ParameterState>& state) const {
  if (state.size() != parameters_.size()) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("optimizer state: it has {} parameters, {} has {}; is it of another model?",
                                state.size(), name(), parameters_.size()));
  }
  std::size_t index = 0;
  for (std::size_t group = 0; group < group_sizes_.size(); ++group) {
    for (std::size_t i = 0; i < group_sizes_[group]; ++i, ++index) {
      check_entries(*this, index, state[index], state_names(group));
    }
  }
}

void FusedOptimizer::load_state(const std::vector<ParameterState>& state) {
  check_state(state);
  const at::NoGradGuard no_grad;
  std::size_t index = 0;
  for (std::size_t group = 0; group < group_sizes_.size(); ++group) {
    for (std::size_t i = 0; i < group_sizes_[group]; ++i, ++index) {
      state_[index] = state[index].empty() ? ParameterState() : make_state(group, parameters_[index]);
      for (auto& [name, tensor] : state_[index]) {
        const auto given = std::find_if(state[index].begin(), state[index].end(),
                                        [&, &key = name](const auto& entry) { return entry.first == key; });
        tensor.copy_(given->second.detach().reshape(tensor.sizes()));
      }
    }
  }
}

}  // namespace ddprun
