#pragma once

#include <ddprun/dist_autograd.h>
#include <ddprun/init.h>
#include <ddprun/optim.h>
#include <ddprun/rpc.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace ddprun {

/// Updates parameters that lie on several workers, each where it is, with the gradients of a context:
/// torch.distributed.optim.DistributedOptimizer over the optimizers of optim.h.
///
///     using Parameters = std::vector<ddprun::rpc::RRef<at::Tensor>>;
///     const auto parameters = ddprun::rpc::rpc_sync<Parameters>("server", "demo::parameters");
///     ddprun::DistributedOptimizer updates(parameters, ddprun::FusedSgdOptions{.lr = 0.1});
///     ddprun::dist_autograd::Context pass;
///     pass.backward({loss_of(input)});
///     updates.step(pass);
///
/// Every owner has one optimizer for its parameters here, which lives as long as this does. Steps of several trainers
/// on the same parameters go one after another on each owner; a trainer may read parameters of which others have
/// stepped on some owners and not yet on all.
///
/// Errors   what the optimizer refuses, and what remote calls throw.
class DistributedOptimizer {
 public:
  using Parameters = std::vector<rpc::RRef<at::Tensor>>;

  DistributedOptimizer(const Parameters& parameters, const FusedSgdOptions& options);
  DistributedOptimizer(const Parameters& parameters, const FusedAdamOptions& options);
  DistributedOptimizer(const Parameters& parameters, const FusedAdagradOptions& options);
  DistributedOptimizer(const Parameters& parameters, const RmspropOptions& options);
  ~DistributedOptimizer();
  DistributedOptimizer(DistributedOptimizer&&) noexcept;
  DistributedOptimizer& operator=(DistributedOptimizer&&) noexcept;

  /// One step on every owner, all at once; returns when each has made it. A parameter without a gradient in the context
  /// stays as it is.
  void step(const dist_autograd::Context& context);

 private:
  DistributedOptimizer(const std::string& kind, const Parameters& parameters,
                       const std::vector<double>& values);

  struct Part;
  std::vector<Part> parts_;
};

}  // namespace ddprun
