#pragma once

#include <ddprun/group.h>
#include <ddprun/join.h>
#include <ddprun/optim.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// An optimizer whose state is spread over the ranks: each keeps state for its share of the parameters only,
/// updates these, and sends them to the others. torch.distributed.optim.ZeroRedundancyOptimizer: the same
/// shares, and after every step the same parameters to the last bit as without it.
///
///     auto optimizer = zero_redundancy_optimizer<FusedAdam>(context, ddp.parameters(),
///                                                           FusedAdamOptions{.lr = 1e-3});
///     optimizer->step();
///
/// Memory   a rank's state is about 1 / size of what the optimizer alone would need. A step sends each rank's
///          parameters in one flat copy per device and dtype, which is there for the time of the step.
/// Order    collective: construction, step() and consolidate_state(), by all ranks of the group, with the
///          same parameters and gradients. A GradScaler sees all gradients on every rank, so all leave out
///          the same steps.
/// State    state() is whole on the rank that consolidate_state() has last collected it on, and throws
///          Exception kConfig elsewhere; load_state() takes a whole one on every rank and keeps this rank's
///          share.
/// Errors   Exception kConfig for no parameters at all.
/// Source   Rajbhandari et al., "ZeRO", SC 2020 (stage 1);
///          torch/distributed/optim/zero_redundancy_optimizer.py
class ZeroRedundancyOptimizer final : public FusedOptimizer, public Joinable {
 public:
  /// Makes the local optimizer: of these groups, some of which may be empty.
  using MakeLocal =
      std::function<std::unique_ptr<FusedOptimizer>(const std::vector<std::vector<at::Tensor>>& groups)>;

  ZeroRedundancyOptimizer(Group group, const std::vector<std::vector<at::Tensor>>& groups,
                          const MakeLocal& make_local);

  using FusedOptimizer::step;
  void step(const StepScale& scale) override;
  /// Sends this rank's share all the same, as in every step: under join(), ranks without input update theirs.
  void skip_step() override;

  [[nodiscard]] Group join_group() const override { return group_; }
  [[nodiscard]] at::Device join_device() const override { return parameters().front().device(); }
  /// Updates this rank's share with the gradients that are there, and sends it.
  void shadow_step() override { update_share({}); }

  /// Collects the state of all ranks on `to`, in memory of the CPU.
  void consolidate_state(int to = 0);
  [[nodiscard]] std::vector<ParameterState> state() const override;
  void load_state(const std::vector<ParameterState>& state) override;

  /// The rank that updates each of parameters().
  [[nodiscard]] const std::vector<int>& owners() const { return owners_; }
  /// The optimizer of this rank's share.
  [[nodiscard]] FusedOptimizer& local() { return *local_; }

  [[nodiscard]] std::string name() const override { return local_->name(); }
  [[nodiscard]] bool can_step_in_parts() const override { return false; }
  /// Where the optimizers of all shares do: the same on every rank.
  [[nodiscard]] bool supports_scale() const override { return supports_scale_; }
  using FusedOptimizer::learning_rate;
  using FusedOptimizer::set_learning_rate;
  [[nodiscard]] double learning_rate(std::size_t group) const override {
    return local_->learning_rate(group);
  }
  void set_learning_rate(std::size_t group, double rate) override { local_->set_learning_rate(group, rate); }
  [[nodiscard]] std::optional<double> momentum(std::size_t group) const override {
    return local_->momentum(group);
  }
  void set_momentum(std::size_t group, double momentum) override { local_->set_momentum(group, momentum); }

 private:
  [[nodiscard]] Hyperparameters own_hyperparameters(std::size_t group) const override {
    return local_->hyperparameters(group);
  }
  [[nodiscard]] std::vector<std::string> state_names(std::size_t /*group*/) const override { return {}; }
  void update(std::size_t /*group*/, Batch& /*batch*/) override {}
  [[nodiscard]] std::vector<at::Tensor> owned_by(int rank) const;
  void update_share(const StepScale& scale);
  void send_parameters();

  Group group_;
  std::vector<int> owners_;
  std::unique_ptr<FusedOptimizer> local_;
  bool supports_scale_ = false;
  std::vector<ParameterState> consolidated_;
  bool is_consolidated_ = false;
};

/// A ZeroRedundancyOptimizer over `Optimizer` (FusedSgd, FusedAdam …), with groups as that one takes them.
template <class Optimizer>
std::unique_ptr<ZeroRedundancyOptimizer> zero_redundancy_optimizer(const Group& group,
                                                                   const typename Optimizer::Groups& groups) {
  std::vector<std::vector<at::Tensor>> tensors;
  for (const auto& one : groups) tensors.push_back(one.parameters);
  return std::make_unique<ZeroRedundancyOptimizer>(group, tensors, [&](const auto& shares) {
    typename Optimizer::Groups local = groups;
    for (std::size_t i = 0; i < local.size(); ++i) local[i].parameters = shares[i];
    return std::make_unique<Optimizer>(std::move(local));
  });
}

/// The same with one group.
template <class Optimizer, class Options>
std::unique_ptr<ZeroRedundancyOptimizer> zero_redundancy_optimizer(const Group& group,
                                                                   std::vector<at::Tensor> parameters,
                                                                   const Options& options) {
  return zero_redundancy_optimizer<Optimizer>(group,
                                              typename Optimizer::Groups{{std::move(parameters), options}});
}

}  // namespace ddprun
