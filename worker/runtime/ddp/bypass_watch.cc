#include "worker/runtime/ddp/bypass_watch.h"

#include "worker/runtime/libtorch/autograd_node.h"
#include <ddprun/exception.h>

#include <fmt/format.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/torch.h>

#include <limits>

namespace ddprun::runtime {

struct BypassWatch::Watched {
  std::string name;
  at::Tensor parameter;
  NodePtr accumulator;
  std::uintptr_t hook = 0;
  int accumulated = 0;
};

BypassWatch::BypassWatch(const std::vector<std::pair<std::string, at::Tensor>>& parameters, Repeats repeats)
    : repeats_(repeats) {
  for (const auto& [name, tensor] : parameters) {
    watched_.push_back(std::make_unique<Watched>());
    watched_.back()->name = name;
    watched_.back()->parameter = tensor;
  }
  follow();
}

void BypassWatch::follow() {
  using torch::autograd::utils::LambdaPostHook;
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    Watched& watched = *watched_[i];
    NodePtr accumulator = torch::autograd::impl::grad_accumulator(watched.parameter);
    if (!accumulator || accumulator == watched.accumulator) continue;
    if (watched.accumulator) watched.accumulator->del_post_hook(watched.hook);
    watched.accumulator = std::move(accumulator);
    watched.hook = watched.accumulator->add_post_hook(std::make_unique<LambdaPostHook>(
        [this, i](const torch::autograd::variable_list& outputs, const torch::autograd::variable_list&) {
          accumulated(i);
          return outputs;
        }));
  }
}

BypassWatch::~BypassWatch() {
  for (const auto& watched : watched_) watched->accumulator->del_post_hook(watched->hook);
}

void BypassWatch::forward_ran(Gradients gradients) {
  permitted_ = gradients == Gradients::kAccumulatedLocally ? std::numeric_limits<int>::max() : 1;
  if (gradients == Gradients::kAccumulatedLocally) return;
  for (const auto& watched : watched_) watched->accumulated = 0;
}

void BypassWatch::accumulated(std::size_t index) {
  Watched& watched = *watched_[index];
  ++watched.accumulated;
  const bool is_covered =
      permitted_ > 0 && (repeats_ == Repeats::kAllowed || watched.accumulated <= permitted_);
  if (is_covered) return;
  throw Exception(
      ErrorCode::kConfig,
      fmt::format(
          "DistributedDataParallel: backward reached parameter \"{}\" {} time(s), but the wrapper's "
          "forward ran {} time(s) since the last reduction, so this gradient would stay on this rank; "
          "call the DistributedDataParallel object, not the module inside it, in every step",
          watched.name, watched.accumulated, permitted_));
}

}  // namespace ddprun::runtime
