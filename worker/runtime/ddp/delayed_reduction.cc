#include "worker/runtime/ddp/delayed_reduction.h"

#include "worker/runtime/ddp/broadcast_bytes.h"
#include <ddprun/collectives.h>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/torch.h>

#include <algorithm>

namespace ddprun::runtime {

DelayedReduction::DelayedReduction(Group group, std::vector<ModuleView::Parameter> parameters,
                                   at::Tensor trigger)
    : group_(std::move(group)), parameters_(std::move(parameters)), trigger_(std::move(trigger)) {
  std::int64_t count = 0;
  std::vector<at::Tensor> detached;
  for (const auto& parameter : parameters_) {
    count += parameter.tensor.numel();
    detached.push_back(parameter.tensor.detach());
  }
  c10d::broadcast_coalesced(group_.process_group(), detached, kBroadcastBytes, 0);
  buffer_ = torch::zeros({count}, parameters_.front().tensor.options().requires_grad(false));
  std::int64_t offset = 0;
  for (const auto& parameter : parameters_) {
    views_.push_back(buffer_.narrow(0, offset, parameter.tensor.numel()).view(parameter.tensor.sizes()));
    offset += parameter.tensor.numel();
  }
  hook_ = trigger_.register_hook([this](const at::Tensor&) {
    // Its own gradient is not accumulated yet, and others of the buffer may come later in the same backward.
    torch::autograd::Engine::get_default_engine().queue_callback([this] { reduce(); });
  });
}

DelayedReduction::~DelayedReduction() { trigger_.remove_hook(hook_); }

void DelayedReduction::reduce() {
  buffer_.div_(group_.size());
  all_reduce(group_, buffer_, ReduceOp::kSum);
}

void DelayedReduction::attach_gradients() {
  const at::NoGradGuard no_grad;
  const bool all_were_reset = std::all_of(parameters_.begin(), parameters_.end(), [](const auto& parameter) {
    return !parameter.tensor.grad().defined();
  });
  if (all_were_reset) buffer_.zero_();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    if (gradient.defined()) continue;
    gradient = views_[i];
    if (!all_were_reset) gradient.zero_();
  }
}

}  // namespace ddprun::runtime
