#include "worker/runtime/ddp/optimizer_in_backward.h"

#include "worker/runtime/ddp/hooks/average_future.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/types.h>
#include <torch/utils.h>

#include <set>

namespace ddprun::runtime {
namespace {

[[noreturn]] void refuse_in_backward(const std::string& why) {
  throw Exception(ErrorCode::kConfig, "DistributedDataParallel: optimizer in backward: " + why);
}

}  // namespace

void check_in_backward(const FusedOptimizer& optimizer, const std::vector<ModuleView::Parameter>& reduced) {
  if (!optimizer.can_step_in_parts())
    refuse_in_backward("this one steps all its parameters at once; give the one that it wraps");
  std::set<const void*> owned;
  for (const at::Tensor& parameter : optimizer.parameters()) owned.insert(parameter.unsafeGetTensorImpl());
  for (const auto& parameter : reduced) {
    if (parameter.has_sparse_gradient)
      refuse_in_backward(fmt::format("parameter \"{}\" has sparse gradients", parameter.name));
    if (owned.erase(parameter.tensor.unsafeGetTensorImpl()) == 1) continue;
    refuse_in_backward(
        fmt::format("parameter \"{}\" is not the optimizer's, and would never be updated", parameter.name));
  }
  if (!owned.empty()) {
    refuse_in_backward(
        fmt::format("{} of the optimizer's {} parameters are not reduced in buckets, and would "
                    "never be updated",
                    owned.size(), optimizer.parameters().size()));
  }
}

CommHook optimizer_in_backward(c10d::Reducer& reducer, const Group& group, FusedOptimizer& optimizer) {
  return [&reducer, &optimizer, &group](c10d::GradBucket& bucket) {
    reducer.run_allreduce_hook(bucket)->waitAndThrow();
    const at::NoGradGuard no_grad;
    bucket.getBufferRef().div_(group.size());
    const std::vector<at::Tensor> parameters = bucket.getParameters();
    const std::vector<at::Tensor> gradients = bucket.getGradients();
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].mutable_grad() = gradients[i];
    optimizer.step_some(parameters);
    for (const at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
    return completed(bucket.getBuffer());
  };
}

}  // namespace ddprun::runtime
