#include "worker/runtime/ddp/bypass_watch.h"

#include "worker/runtime/libtorch/autograd_node.h"
#include "worker/runtime/libtorch/reducer_access.h"
#include <ddprun/exception.h>

#include <fmt/format.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/torch.h>

namespace ddprun::runtime {

struct BypassWatch::Watched {
  std::string name;
  at::Tensor parameter;
  NodePtr accumulator{};
  std::uintptr_t hook = 0;
};

BypassWatch::BypassWatch(const std::vector<std::pair<std::string, at::Tensor>>& parameters) {
  for (const auto& [name, tensor] : parameters)
    watched_.push_back(std::make_unique<Watched>(Watched{.name = name, .parameter = tensor}));
  follow();
}

void BypassWatch::follow() {
  using torch::autograd::utils::LambdaPostHook;
  for (const auto& one : watched_) {
    Watched& watched = *one;
    NodePtr accumulator = torch::autograd::impl::grad_accumulator(watched.parameter);
    if (!accumulator || accumulator == watched.accumulator) continue;
    if (watched.accumulator) watched.accumulator->del_post_hook(watched.hook);
    watched.accumulator = std::move(accumulator);
    watched.hook = watched.accumulator->add_post_hook(
        std::make_unique<LambdaPostHook>([this, &watched](const torch::autograd::variable_list& outputs,
                                                          const torch::autograd::variable_list&) {
          accumulated(watched);
          return outputs;
        }));
  }
}

BypassWatch::~BypassWatch() {
  for (const auto& watched : watched_) watched->accumulator->del_post_hook(watched->hook);
}

void BypassWatch::check() const {
  for (const auto& watched : watched_) {
    if (torch::autograd::impl::try_get_grad_accumulator(watched->parameter) == watched->accumulator) continue;
    throw Exception(
        ErrorCode::kConfig,
        fmt::format(
            "DistributedDataParallel: parameter \"{}\" was moved or cast after the wrapper was made (it is "
            "{} on "
            "{} now), so its gradient would stay on this rank; call to() first, and then make the wrapper",
            watched->name, c10::toString(watched->parameter.scalar_type()),
            watched->parameter.device().str()));
  }
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
