#include "worker/runtime/ddp/bypass_watch.h"

#include "worker/runtime/libtorch/autograd_node.h"
#include "worker/runtime/libtorch/reducer_access.h"
#include <ddprun/exception.h>

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/types.h>

namespace ddprun::runtime {

struct BypassWatch::Watched {
  std::string name;
  at::Tensor parameter;
  NodePtr accumulator{};
  std::uintptr_t hook = 0;
};

namespace {

// A parameter that is frozen at the moment has one, too: it may be trained again in the next step.
NodePtr accumulator_of(at::Tensor parameter) {
  const bool is_frozen = !parameter.requires_grad();
  if (is_frozen) parameter.set_requires_grad(true);
  NodePtr accumulator = torch::autograd::impl::grad_accumulator(parameter);
  if (is_frozen) parameter.set_requires_grad(false);
  return accumulator;
}

}  // namespace

BypassWatch::BypassWatch(const std::vector<std::pair<std::string, at::Tensor>>& parameters) {
  for (const auto& [name, tensor] : parameters) {
    const auto& watched =
        watched_.emplace_back(std::make_unique<Watched>(Watched{.name = name, .parameter = tensor}));
    watched_of_[tensor.unsafeGetTensorImpl()] = watched.get();
    follow(*watched);
  }
}

void BypassWatch::follow(const at::Tensor& parameter) {
  follow(*watched_of_.at(parameter.unsafeGetTensorImpl()));
}

void BypassWatch::follow(Watched& watched) {
  using torch::autograd::utils::LambdaPostHook;
  NodePtr accumulator = accumulator_of(watched.parameter);
  if (accumulator == watched.accumulator) return;
  if (watched.accumulator) watched.accumulator->del_post_hook(watched.hook);
  watched.accumulator = std::move(accumulator);
  watched.hook = watched.accumulator->add_post_hook(std::make_unique<LambdaPostHook>(
      [this, &watched](const torch::autograd::variable_list& outputs, const torch::autograd::variable_list&) {
        accumulated(watched);
        return outputs;
      }));
}

BypassWatch::~BypassWatch() {
  for (const auto& watched : watched_) watched->accumulator->del_post_hook(watched->hook);
}

std::string BypassWatch::moved_parameter() const {
  for (const auto& watched : watched_) {
    if (torch::autograd::impl::try_get_grad_accumulator(watched->parameter) == watched->accumulator) continue;
    return fmt::format(
        "parameter \"{}\" was moved or cast after the wrapper was made (it is {} on {} now), so its gradient "
        "would stay on this rank; call to() first, and then make the wrapper",
        watched->name, c10::toString(watched->parameter.scalar_type()), watched->parameter.device().str());
  }
  return {};
}

void BypassWatch::accumulated(const Watched& watched) const {
  if (last_forward_ == Gradients::kAccumulatedLocally || expects_gradients(*reducer_)) return;
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("DistributedDataParallel: backward reached parameter \"{}\", and no forward of the wrapper "
                  "came before "
                  "it since the last reduction, so this gradient would stay on this rank; call the "
                  "DistributedDataParallel object, not the module inside it, in every step",
                  watched.name));
}

}  // namespace ddprun::runtime
