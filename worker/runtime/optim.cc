#include <ddprun/exception.h>
#include <ddprun/optim.h>

#include <fmt/format.h>
#include <torch/torch.h>

#include <map>
#include <tuple>

namespace ddprun {
namespace {

using ParameterState = FusedOptimizer::ParameterState;

// A fused kernel takes tensors of one device and dtype. Keyed so, the order of the calls is fixed.
using GroupKey = std::tuple<c10::DeviceType, c10::DeviceIndex, c10::ScalarType, bool>;

GroupKey group_of(const at::Tensor& tensor, bool is_first_step) {
  return {tensor.device().type(), tensor.device().index(), tensor.scalar_type(), is_first_step};
}

[[noreturn]] void refuse_state(const std::string& optimizer, std::size_t index, const std::string& why) {
  throw Exception(ErrorCode::kConfig,
                  fmt::format("optimizer state: parameter {} of {}: {}; is it of another model or optimizer?",
                              index, optimizer, why));
}

const at::Tensor* find_entry(const ParameterState& state, const std::string& name) {
  for (const auto& [key, tensor] : state) {
    if (key == name) return &tensor;
  }
  return nullptr;
}

std::string shape_text(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
}

void check_count(const FusedOptimizer& optimizer, std::size_t given) {
  const std::size_t expected = optimizer.parameters().size();
  if (given == expected) return;
  throw Exception(ErrorCode::kConfig,
                  fmt::format("optimizer state: it has {} parameters, {} has {}; is it of another "
                              "model?",
                              given, optimizer.name(), expected));
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
    if (name != "step" && tensor.sizes() != parameter.sizes()) {
      refuse_state(optimizer.name(), index,
                   fmt::format("\"{}\" has shape {}, the parameter {}", name, shape_text(tensor),
                               shape_text(parameter)));
    }
  }
  for (const std::string& name : names) {
    if (find_entry(state, name) == nullptr)
      refuse_state(optimizer.name(), index, fmt::format("\"{}\" is missing", name));
  }
}

at::Tensor copy_like(const at::Tensor& parameter, const at::Tensor& source) {
  return torch::empty_like(parameter, parameter.options().requires_grad(false)).copy_(source.detach());
}

void step_sparse(at::Tensor& parameter, const at::Tensor& gradient, const FusedSgdOptions& options) {
  if (options.momentum != 0 || options.weight_decay != 0) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("SGD: a parameter of shape {} has a sparse gradient; momentum {} and "
                                "weight decay {} are for dense ones. Set both to 0 or make the "
                                "embedding dense",
                                shape_text(parameter), options.momentum, options.weight_decay));
  }
  parameter.add_(gradient, options.maximize ? options.lr : -options.lr);
}

}  // namespace

FusedOptimizer::FusedOptimizer(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {}

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

FusedSgd::FusedSgd(std::vector<at::Tensor> parameters, const FusedSgdOptions& options)
    : FusedOptimizer(std::move(parameters)), options_(options), momentum_buffers_(parameters_.size()) {
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("SGD: nesterov needs momentum > 0 and dampening 0, got momentum {} and "
                                "dampening {}",
                                options.momentum, options.dampening));
  }
}

void FusedSgd::step() {
  struct Batch {
    std::vector<at::Tensor> parameters, gradients, buffers;
  };
  const at::NoGradGuard no_grad;
  const bool has_momentum = options_.momentum != 0;
  std::map<GroupKey, Batch> groups;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& parameter = parameters_[i];
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (gradient.is_sparse()) {
      step_sparse(parameter, gradient, options_);
      continue;
    }
    at::Tensor& buffer = momentum_buffers_[i];
    const bool is_first_step = has_momentum && !buffer.defined();
    if (is_first_step) buffer = torch::empty_like(gradient);
    Batch& group = groups[group_of(parameter, is_first_step)];
    group.parameters.push_back(parameter);
    group.gradients.push_back(gradient);
    if (has_momentum) group.buffers.push_back(buffer);
  }
  for (auto& [key, group] : groups) {
    at::_fused_sgd_(group.parameters, group.gradients, group.buffers, options_.weight_decay,
                    options_.momentum, options_.lr, options_.dampening, options_.nesterov, options_.maximize,
                    /*is_first_step=*/std::get<bool>(key));
  }
}

FusedOptimizer::Hyperparameters FusedSgd::hyperparameters() const {
  return {{"lr", options_.lr},
          {"momentum", options_.momentum},
          {"dampening", options_.dampening},
          {"weight_decay", options_.weight_decay},
          {"nesterov", options_.nesterov},
          {"maximize", options_.maximize},
          {"foreach", c10::IValue()},
          {"differentiable", false},
          {"fused", true}};
}

std::vector<ParameterState> FusedSgd::state() const {
  std::vector<ParameterState> state(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (momentum_buffers_[i].defined()) state[i].emplace_back("momentum_buffer", momentum_buffers_[i]);
  }
  return state;
}

void FusedSgd::load_state(const std::vector<ParameterState>& state) {
  check_count(*this, state.size());
  for (std::size_t i = 0; i < state.size(); ++i) check_entries(*this, i, state[i], {"momentum_buffer"});
  for (std::size_t i = 0; i < state.size(); ++i) {
    momentum_buffers_[i] =
        state[i].empty() ? at::Tensor() : copy_like(parameters_[i], state[i].front().second);
  }
}

FusedAdam::FusedAdam(std::vector<at::Tensor> parameters, const FusedAdamOptions& options)
    : FusedOptimizer(std::move(parameters)), options_(options), moments_(parameters_.size()) {}

void FusedAdam::ensure_moments(std::size_t index) {
  Moments& moments = moments_[index];
  if (moments.step.defined()) return;
  const at::Tensor& parameter = parameters_[index];
  const auto zeros = [&] { return torch::zeros_like(parameter, parameter.options().requires_grad(false)); };
  moments.step = torch::zeros({}, parameter.options().dtype(torch::kFloat32).requires_grad(false));
  moments.exp_avg = zeros();
  moments.exp_avg_sq = zeros();
  if (options_.amsgrad) moments.max_exp_avg_sq = zeros();
}

void FusedAdam::step() {
  struct Batch {
    std::vector<at::Tensor> parameters, gradients, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps;
  };
  const at::NoGradGuard no_grad;
  std::map<GroupKey, Batch> groups;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& gradient = parameters_[i].grad();
    if (!gradient.defined()) continue;
    ensure_moments(i);
    Batch& group = groups[group_of(parameters_[i], false)];
    group.parameters.push_back(parameters_[i]);
    group.gradients.push_back(gradient);
    group.exp_avgs.push_back(moments_[i].exp_avg);
    group.exp_avg_sqs.push_back(moments_[i].exp_avg_sq);
    if (options_.amsgrad) group.max_exp_avg_sqs.push_back(moments_[i].max_exp_avg_sq);
    group.steps.push_back(moments_[i].step);
  }
  const auto kernel = [&](Batch& g) {
    const auto& o = options_;
    if (o.decoupled_weight_decay) {
      at::_fused_adamw_(g.parameters, g.gradients, g.exp_avgs, g.exp_avg_sqs, g.max_exp_avg_sqs, g.steps,
                        o.lr, o.beta1, o.beta2, o.weight_decay, o.eps, o.amsgrad, o.maximize);
    } else {
      at::_fused_adam_(g.parameters, g.gradients, g.exp_avgs, g.exp_avg_sqs, g.max_exp_avg_sqs, g.steps, o.lr,
                       o.beta1, o.beta2, o.weight_decay, o.eps, o.amsgrad, o.maximize);
    }
  };
  for (auto& [key, group] : groups) {
    at::_foreach_add_(group.steps, 1);
    kernel(group);
  }
}

FusedOptimizer::Hyperparameters FusedAdam::hyperparameters() const {
  return {{"lr", options_.lr},
          {"betas", c10::ivalue::Tuple::create({options_.beta1, options_.beta2})},
          {"eps", options_.eps},
          {"weight_decay", options_.weight_decay},
          {"amsgrad", options_.amsgrad},
          {"maximize", options_.maximize},
          {"foreach", c10::IValue()},
          {"capturable", false},
          {"differentiable", false},
          {"fused", true},
          {"decoupled_weight_decay", options_.decoupled_weight_decay}};
}

std::vector<ParameterState> FusedAdam::state() const {
  std::vector<ParameterState> state(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Moments& moments = moments_[i];
    if (!moments.step.defined()) continue;
    state[i] = {{"step", moments.step}, {"exp_avg", moments.exp_avg}, {"exp_avg_sq", moments.exp_avg_sq}};
    if (options_.amsgrad) state[i].emplace_back("max_exp_avg_sq", moments.max_exp_avg_sq);
  }
  return state;
}

void FusedAdam::load_state(const std::vector<ParameterState>& state) {
  std::vector<std::string> names = {"step", "exp_avg", "exp_avg_sq"};
  if (options_.amsgrad) names.emplace_back("max_exp_avg_sq");
  check_count(*this, state.size());
  for (std::size_t i = 0; i < state.size(); ++i) check_entries(*this, i, state[i], names);
  for (std::size_t i = 0; i < state.size(); ++i) {
    moments_[i] = {};
    if (state[i].empty()) continue;
    ensure_moments(i);
    moments_[i].step.copy_(find_entry(state[i], "step")->reshape({}));
    moments_[i].exp_avg.copy_(*find_entry(state[i], "exp_avg"));
    moments_[i].exp_avg_sq.copy_(*find_entry(state[i], "exp_avg_sq"));
    if (options_.amsgrad) moments_[i].max_exp_avg_sq.copy_(*find_entry(state[i], "max_exp_avg_sq"));
  }
}

}  // namespace ddprun
