#include "worker/training/step/ready_order.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/types.h>

#include <memory>

namespace ddprun::training {

ReadyOrder::ReadyOrder(const std::vector<at::Tensor>& parameters) {
  using torch::autograd::variable_list;
  using torch::autograd::utils::LambdaPostHook;
  for (std::size_t place = 0; place < parameters.size(); ++place) {
    Hook& hook = hooks_.emplace_back();
    hook.accumulator = torch::autograd::impl::grad_accumulator(parameters[place]);
    hook.key = hook.accumulator->add_post_hook(
        std::make_unique<LambdaPostHook>([this, place](const variable_list& outputs, const variable_list&) {
          seen_.push_back(place);
          return outputs;
        }));
  }
}

ReadyOrder::~ReadyOrder() {
  for (const Hook& hook : hooks_) hook.accumulator->del_post_hook(hook.key);
}

}  // namespace ddprun::training
