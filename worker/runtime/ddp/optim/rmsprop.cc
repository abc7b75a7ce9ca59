#include "worker/runtime/ddp/optim/check_options.h"
#include <ddprun/optim.h>

#include <torch/types.h>

namespace ddprun {

Rmsprop::Rmsprop(Groups groups) : GroupedOptimizer(std::move(groups)) {
  for (std::size_t group = 0; group < group_count(); ++group) {
    const RmspropOptions& o = options(group);
    const runtime::OptionsCheck check(name(), group);
    check.at_least_0("lr", o.lr);
    check.at_least_0("eps", o.eps);
    check.at_least_0("momentum", o.momentum);
    check.at_least_0("weight_decay", o.weight_decay);
    check.at_least_0("alpha", o.alpha);
  }
}

FusedOptimizer::Hyperparameters Rmsprop::own_hyperparameters(std::size_t group) const {
  const RmspropOptions& o = options(group);
  return {{"lr", o.lr},
          {"momentum", o.momentum},
          {"alpha", o.alpha},
          {"eps", o.eps},
          {"centered", o.centered},
          {"weight_decay", o.weight_decay},
          {"capturable", false},
          {"foreach", c10::IValue()},
          {"maximize", o.maximize},
          {"differentiable", false}};
}

std::vector<std::string> Rmsprop::state_names(std::size_t group) const {
  std::vector<std::string> names = {"step", "square_avg"};
  if (options(group).momentum > 0) names.emplace_back("momentum_buffer");
  if (options(group).centered) names.emplace_back("grad_avg");
  return names;
}

at::Tensor Rmsprop::new_state(std::size_t group, const std::string& name, const at::Tensor& parameter) const {
  return name == "step" ? at::zeros({}, at::kFloat) : FusedOptimizer::new_state(group, name, parameter);
}

void Rmsprop::update(std::size_t group, Batch& batch) {
  const RmspropOptions& o = options(group);
  const bool has_momentum = o.momentum > 0;
  decay_as_real(batch, o.maximize, o.weight_decay);
  const std::vector<at::Tensor>& squares = batch.state[1];
  const std::vector<at::Tensor>& gradients = batch.gradients;
  at::_foreach_add_(batch.state[0], 1);
  at::_foreach_mul_(squares, o.alpha);
  at::_foreach_addcmul_(squares, gradients, gradients, 1 - o.alpha);
  std::vector<at::Tensor> roots;
  if (o.centered) {
    const std::vector<at::Tensor>& means = batch.state[has_momentum ? 3 : 2];
    at::_foreach_lerp_(means, gradients, 1 - o.alpha);
    roots = at::_foreach_addcmul(squares, means, means, -1);
    at::_foreach_sqrt_(roots);
  } else {
    roots = at::_foreach_sqrt(squares);
  }
  at::_foreach_add_(roots, o.eps);
  if (has_momentum) {
    const std::vector<at::Tensor>& buffers = batch.state[2];
    at::_foreach_mul_(buffers, o.momentum);
    at::_foreach_addcdiv_(buffers, gradients, roots, 1);
    at::_foreach_add_(batch.parameters, buffers, -o.lr);
  } else {
    at::_foreach_addcdiv_(batch.parameters, gradients, roots, -o.lr);
  }
}

}  // namespace ddprun
