#include "worker/runtime/ddp/optim/check_options.h"
#include "worker/runtime/ddp/optim/given.h"
#include "worker/runtime/libtorch/adagrad_scale.h"
#include <ddprun/optim.h>

#include <torch/types.h>

#include <algorithm>

namespace ddprun {
namespace {

bool has_fused_kernel(const at::Tensor& parameter) { return parameter.is_cpu() && !parameter.is_complex(); }

}  // namespace

FusedAdagrad::FusedAdagrad(Groups groups) : GroupedOptimizer(std::move(groups)) {
  for (std::size_t group = 0; group < group_count(); ++group) {
    const FusedAdagradOptions& o = options(group);
    const runtime::OptionsCheck check(name(), group);
    check.at_least_0("lr", o.lr);
    check.at_least_0("lr_decay", o.lr_decay);
    check.at_least_0("weight_decay", o.weight_decay);
    check.at_least_0("initial_accumulator_value", o.initial_accumulator_value);
    check.at_least_0("eps", o.eps);
  }
  make_all_states();
}

bool FusedAdagrad::supports_scale() const {
  return runtime::kAdagradTakesScale && std::ranges::all_of(parameters(), has_fused_kernel);
}

FusedOptimizer::Hyperparameters FusedAdagrad::own_hyperparameters(std::size_t group) const {
  const FusedAdagradOptions& o = options(group);
  return {{"lr", o.lr},
          {"lr_decay", o.lr_decay},
          {"eps", o.eps},
          {"weight_decay", o.weight_decay},
          {"initial_accumulator_value", o.initial_accumulator_value},
          {"foreach", c10::IValue()},
          {"maximize", o.maximize},
          {"differentiable", false},
          {"fused", std::ranges::all_of(parameters_of(group), has_fused_kernel)}};
}

std::vector<std::string> FusedAdagrad::state_names(std::size_t /*group*/) const { return {"step", "sum"}; }

at::Tensor FusedAdagrad::new_state(std::size_t group, const std::string& name,
                                   const at::Tensor& parameter) const {
  // On the CPU on every device: the rate depends on it, and nobody waits for the device to read it.
  if (name == "step") return at::zeros({}, at::kFloat);
  const double value = options(group).initial_accumulator_value;
  const at::Scalar initial = parameter.is_complex() ? at::Scalar(c10::complex<double>(value, value)) : value;
  return at::full_like(parameter, initial, parameter.options().requires_grad(false));
}

void FusedAdagrad::update(std::size_t group, Batch& batch) {
  const FusedAdagradOptions& o = options(group);
  const bool is_fused = has_fused_kernel(batch.parameters.front());
  if (!is_fused) decay_as_real(batch, o.maximize, o.weight_decay);
  const std::vector<at::Tensor>&steps = batch.state[0], &sums = batch.state[1];
  at::_foreach_add_(steps, 1);
  if (is_fused) {
    const auto found_inf = runtime::given(batch.scale.found_inf);
    at::_fused_adagrad_(batch.parameters, batch.gradients, sums, steps, o.lr, o.lr_decay, o.weight_decay,
                        o.eps, o.maximize, runtime::given(batch.scale.grad_scale), found_inf);
    if (found_inf) at::_foreach_sub_(steps, std::vector<at::Tensor>(steps.size(), *found_inf));
    return;
  }
  const std::vector<at::Tensor>& gradients = batch.gradients;
  std::vector<at::Scalar> rates;
  for (const at::Tensor& step : steps) {
    rates.emplace_back(-o.lr / (1 + (double{step.item<float>()} - 1) * o.lr_decay));
  }
  at::_foreach_addcmul_(sums, gradients, gradients, 1);
  const std::vector<at::Tensor> deviations = at::_foreach_sqrt(sums);
  at::_foreach_add_(deviations, o.eps);
  at::_foreach_addcdiv_(batch.parameters, at::_foreach_mul(gradients, rates), deviations, 1);
}

}  // namespace ddprun
