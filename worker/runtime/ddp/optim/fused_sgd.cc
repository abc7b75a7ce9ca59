#include "worker/runtime/ddp/optim/check_options.h"
#include "worker/runtime/ddp/optim/given.h"
#include <ddprun/exception.h>
#include <ddprun/optim.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

namespace ddprun {
namespace {

// What a fused kernel does with a dense gradient: divides it, and takes nothing of an overflow. No host waits.
at::Tensor under(const StepScale& scale, const at::Tensor& gradient) {
  if (!scale.grad_scale.defined() && !scale.found_inf.defined()) return gradient;
  at::Tensor values = gradient._values();
  if (scale.grad_scale.defined()) values = values.div(scale.grad_scale);
  if (scale.found_inf.defined()) values = at::where(scale.found_inf.ne(0), at::zeros_like(values), values);
  return at::_sparse_coo_tensor_unsafe(gradient._indices(), values, gradient.sizes(),
                                       values.options().layout(at::kSparse));
}

}  // namespace

FusedSgd::FusedSgd(Groups groups) : GroupedOptimizer(std::move(groups)) {
  for (std::size_t group = 0; group < group_count(); ++group) {
    const FusedSgdOptions& o = options(group);
    const runtime::OptionsCheck check(name(), group);
    check.at_least_0("lr", o.lr);
    check.at_least_0("momentum", o.momentum);
    check.at_least_0("weight_decay", o.weight_decay);
    if (!o.nesterov || (o.momentum > 0 && o.dampening == 0)) continue;
    throw Exception(ErrorCode::kConfig,
                    fmt::format("SGD: nesterov needs momentum > 0 and dampening 0, got momentum {} and "
                                "dampening {}",
                                o.momentum, o.dampening));
  }
}

FusedOptimizer::Hyperparameters FusedSgd::own_hyperparameters(std::size_t group) const {
  const FusedSgdOptions& o = options(group);
  return {{"lr", o.lr},
          {"momentum", o.momentum},
          {"dampening", o.dampening},
          {"weight_decay", o.weight_decay},
          {"nesterov", o.nesterov},
          {"maximize", o.maximize},
          {"foreach", c10::IValue()},
          {"differentiable", false},
          {"fused", true}};
}

std::vector<std::string> FusedSgd::state_names(std::size_t /*group*/) const { return {"momentum_buffer"}; }

at::Tensor FusedSgd::new_state(std::size_t group, const std::string& /*name*/,
                               const at::Tensor& parameter) const {
  if (options(group).momentum == 0) return {};
  return at::empty_like(parameter, parameter.options().requires_grad(false));
}

bool FusedSgd::update_sparse(std::size_t group, const at::Tensor& parameter, const at::Tensor& gradient,
                             const StepScale& scale) {
  const FusedSgdOptions& o = options(group);
  if (o.momentum != 0 || o.weight_decay != 0) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("SGD: a parameter of shape [{}] has a sparse gradient; momentum {} and weight "
                    "decay {} are for dense ones. Set both to 0 or make the embedding dense",
                    fmt::join(parameter.sizes(), ", "), o.momentum, o.weight_decay));
  }
  parameter.add_(under(scale, gradient), o.maximize ? o.lr : -o.lr);
  return true;
}

void FusedSgd::update(std::size_t group, Batch& batch) {
  const FusedSgdOptions& o = options(group);
  const bool has_momentum = o.momentum != 0;
  bool is_first_step = has_momentum && batch.is_first_step;
  // A step that finds an overflow writes nothing. In Python it leaves a first momentum buffer as it was
  // allocated.
  if (is_first_step && batch.scale.found_inf.defined()) {
    if (o.dampening != 0 && batch.scale.found_inf.item<float>() != 0) return forget(batch);
    if (o.dampening == 0) {
      for (at::Tensor& buffer : batch.state[0]) buffer.zero_();
      is_first_step = false;  // without dampening the first step is any step from zeros
    }
  }
  const std::vector<at::Tensor> none;
  at::_fused_sgd_(batch.parameters, batch.gradients, has_momentum ? batch.state[0] : none, o.weight_decay,
                  o.momentum, o.lr, o.dampening, o.nesterov, o.maximize, is_first_step,
                  runtime::given(batch.scale.grad_scale), runtime::given(batch.scale.found_inf));
}

}  // namespace ddprun
