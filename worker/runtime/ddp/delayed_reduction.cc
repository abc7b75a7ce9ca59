#include "worker/runtime/ddp/delayed_reduction.h"

#include "worker/runtime/ddp/broadcast_bytes.h"
#include <ddprun/collectives.h>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

namespace ddprun::runtime {

DelayedReduction::DelayedReduction(Group group, std::vector<ModuleView::Parameter> parameters,
                                   at::Tensor trigger)
    : group_(std::move(group)), parameters_(std::move(parameters)), trigger_(std::move(trigger)) {
  std::vector<at::Tensor> detached;
  for (const auto& parameter : parameters_) detached.push_back(parameter.tensor.detach());
  views_.resize(parameters_.size());
  for (const at::Tensor& first : detached) {
    const auto is_like_first = [&](const at::Tensor& tensor) {
      return tensor.device() == first.device() && tensor.scalar_type() == first.scalar_type();
    };
    if (std::ranges::any_of(buffers_, is_like_first)) continue;
    std::int64_t count = 0;
    for (const at::Tensor& tensor : detached) count += is_like_first(tensor) ? tensor.numel() : 0;
    const at::Tensor& buffer = buffers_.emplace_back(torch::zeros({count}, first.options()));
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < detached.size(); ++i) {
      if (!is_like_first(detached[i])) continue;
      views_[i] = buffer.narrow(0, offset, detached[i].numel()).view(detached[i].sizes());
      offset += detached[i].numel();
    }
  }
  hook_ = trigger_.register_hook([this](const at::Tensor&) {
    // Its own gradient is not accumulated yet, and others of the buffer may come later in the same backward.
    torch::autograd::Engine::get_default_engine().queue_callback([this] { reduce(); });
  });
}

DelayedReduction::~DelayedReduction() { trigger_.remove_hook(hook_); }

void DelayedReduction::collect_gradients() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    if (!gradient.defined()) {
      views_[i].zero_();
    } else if (gradient.is_sparse()) {
      views_[i].copy_(gradient.detach().to_dense());
    } else if (!gradient.is_set_to(views_[i])) {
      views_[i].copy_(gradient.detach());
    }
    gradient = views_[i];
  }
}

void DelayedReduction::reduce() {
  const at::NoGradGuard no_grad;
  collect_gradients();
  for (const at::Tensor& buffer : buffers_) {
    buffer.div_(group_.size());
    all_reduce(group_, buffer, ReduceOp::kSum);
  }
}

void DelayedReduction::attach_gradients() {
  const at::NoGradGuard no_grad;
  const bool all_were_reset = std::all_of(parameters_.begin(), parameters_.end(), [](const auto& parameter) {
    return !parameter.tensor.grad().defined();
  });
  if (all_were_reset) {
    for (const at::Tensor& buffer : buffers_) buffer.zero_();
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    if (gradient.defined()) continue;
    gradient = views_[i];
    if (!all_were_reset) gradient.zero_();
  }
}

}  // namespace ddprun::runtime
