#include "worker/runtime/ddp/optim/check_options.h"
#include "worker/runtime/ddp/optim/given.h"
#include <ddprun/optim.h>

#include <torch/types.h>

namespace ddprun {

FusedAdam::FusedAdam(Groups groups) : GroupedOptimizer(std::move(groups)) {
  for (std::size_t group = 0; group < group_count(); ++group) {
    const FusedAdamOptions& o = options(group);
    const runtime::OptionsCheck check(name(), group);
    check.at_least_0("lr", o.lr);
    check.at_least_0("eps", o.eps);
    check.from_0_below_1("beta1", o.beta1);
    check.from_0_below_1("beta2", o.beta2);
    check.at_least_0("weight_decay", o.weight_decay);
  }
}

FusedOptimizer::Hyperparameters FusedAdam::own_hyperparameters(std::size_t group) const {
  const FusedAdamOptions& o = options(group);
  return {{"lr", o.lr},
          {"betas", c10::ivalue::Tuple::create({o.beta1, o.beta2})},
          {"eps", o.eps},
          {"weight_decay", o.weight_decay},
          {"amsgrad", o.amsgrad},
          {"maximize", o.maximize},
          {"foreach", c10::IValue()},
          {"capturable", false},
          {"differentiable", false},
          {"fused", true},
          {"decoupled_weight_decay", o.decoupled_weight_decay}};
}

std::vector<std::string> FusedAdam::state_names(std::size_t group) const {
  std::vector<std::string> names = {"step", "exp_avg", "exp_avg_sq"};
  if (options(group).amsgrad) names.emplace_back("max_exp_avg_sq");
  return names;
}

void FusedAdam::update(std::size_t group, Batch& batch) {
  const FusedAdamOptions& o = options(group);
  const std::vector<at::Tensor>& steps = batch.state[0];
  const std::vector<at::Tensor> maxima = o.amsgrad ? batch.state[3] : std::vector<at::Tensor>();
  const auto grad_scale = runtime::given(batch.scale.grad_scale),
             found_inf = runtime::given(batch.scale.found_inf);
  at::_foreach_add_(steps, 1);
  if (o.decoupled_weight_decay) {
    at::_fused_adamw_(batch.parameters, batch.gradients, batch.state[1], batch.state[2], maxima, steps, o.lr,
                      o.beta1, o.beta2, o.weight_decay, o.eps, o.amsgrad, o.maximize, grad_scale, found_inf);
  } else {
    at::_fused_adam_(batch.parameters, batch.gradients, batch.state[1], batch.state[2], maxima, steps, o.lr,
                     o.beta1, o.beta2, o.weight_decay, o.eps, o.amsgrad, o.maximize, grad_scale, found_inf);
  }
  if (found_inf) at::_foreach_sub_(steps, std::vector<at::Tensor>(steps.size(), *found_inf));
}

}  // namespace ddprun
