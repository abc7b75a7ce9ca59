#pragma once

#include <ddprun/group.h>
#include <ddprun/optim.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// Local SGD: ranks train on their own for some steps, and then take the mean of their parameters. Behind
/// post_local_sgd_hook (comm_hooks.h), which stops averaging gradients over all ranks after `start_step`:
///
///     ddp.register_comm_hook(post_local_sgd_hook({context, subgroup, {.start_step = 100}}));
///     FusedSgd local(ddp.parameters(), {.lr = 0.1});
///     PeriodicModelAverager averager(context, {.period = 4, .warmup_steps = 100});
///     PostLocalSgdOptimizer optimizer(local, averager);  // its step() averages in every fourth step
///
/// Source  Lin et al., "Don't Use Large Mini-Batches, Use Local SGD", 2018; of torch 2.11
///         torch/distributed/algorithms/model_averaging/ and
///         torch/distributed/optim/post_localSGD_optimizer.py
namespace ddprun {

/// Counts the steps of an optimizer, and takes the mean of parameters over some group in some of them.
///
/// Order    average_parameters is collective over every group of the averager: all ranks call it equally
///          often, with the same parameters. They may be of any dtypes and devices that the group serves.
/// Threads  one at a time.
class ModelAverager {
 public:
  virtual ~ModelAverager() = default;
  ModelAverager(const ModelAverager&) = delete;
  ModelAverager& operator=(const ModelAverager&) = delete;

  /// After each optimizer step, before zero_grad(): counts it, and where it is due makes those parameters
  /// that have a gradient their means over the group. As average_parameters of collectives.h.
  void average_parameters(const std::vector<at::Tensor>& parameters);

  /// How often average_parameters was called.
  [[nodiscard]] std::int64_t step() const { return step_; }
  void set_step(std::int64_t step) { step_ = step; }

 protected:
  ModelAverager() = default;
  /// Whose mean is due in this step, counted from 0. Null: nobody's.
  [[nodiscard]] virtual const Group* group_of(std::int64_t step) const = 0;

 private:
  std::int64_t step_ = 0;
};

struct PeriodicModelAveragerOptions {
  std::int64_t period = 1;        ///< steps from one mean to the next
  std::int64_t warmup_steps = 0;  ///< steps before the first: start_step of the hook
};

/// Means over one group in every period-th step, the first in step `warmup_steps`.
/// Errors  Exception kConfig for a period below 1 and for warmup_steps below 0.
class PeriodicModelAverager final : public ModelAverager {
 public:
  PeriodicModelAverager(Group group, const PeriodicModelAveragerOptions& options);

 private:
  [[nodiscard]] const Group* group_of(std::int64_t step) const override;

  Group group_;
  PeriodicModelAveragerOptions options_;
};

/// Means over small groups often and over large ones seldom: in a step that several periods divide, over the
/// group of the longest.
class HierarchicalModelAverager final : public ModelAverager {
 public:
  struct Level {
    std::int64_t period = 1;
    int group_size = 1;  ///< neighbours by rank; a divisor of the whole group's size
  };

  /// Cuts `group` into those of each level (split_group): collective. `levels` by rising period; the last one
  /// is the whole group.
  /// Errors  Exception kConfig for levels that are not so, and for warmup_steps below 0.
  HierarchicalModelAverager(const Group& group, const std::vector<Level>& levels,
                            std::int64_t warmup_steps = 0);

 private:
  [[nodiscard]] const Group* group_of(std::int64_t step) const override;

  std::vector<std::pair<std::int64_t, Group>> groups_;  ///< by rising period
  std::int64_t warmup_steps_;
};

/// An optimizer that lets an averager follow each of its steps. Both are the caller's, and outlive this.
///
/// Scaling  with a GradScaler, a rank that leaves out its update because of an overflow averages all the
///          same, so that all ranks stay in step: gradients, and so overflows, are each rank's own.
/// State    the local optimizer's, and the averager's step under "step"; where that is missing it begins
///          at 0.
class PostLocalSgdOptimizer final : public FusedOptimizer {
 public:
  PostLocalSgdOptimizer(FusedOptimizer& local, ModelAverager& averager);

  using FusedOptimizer::step;
  void step(const StepScale& scale) override;
  void skip_step() override;

  [[nodiscard]] std::string name() const override { return local_.name(); }
  [[nodiscard]] bool can_step_in_parts() const override { return false; }
  [[nodiscard]] bool supports_scale() const override { return local_.supports_scale(); }
  using FusedOptimizer::learning_rate;
  using FusedOptimizer::set_learning_rate;
  [[nodiscard]] double learning_rate(std::size_t group) const override { return local_.learning_rate(group); }
  void set_learning_rate(std::size_t group, double rate) override { local_.set_learning_rate(group, rate); }
  [[nodiscard]] std::optional<double> momentum(std::size_t group) const override {
    return local_.momentum(group);
  }
  void set_momentum(std::size_t group, double momentum) override { local_.set_momentum(group, momentum); }

  [[nodiscard]] std::vector<ParameterState> state() const override { return local_.state(); }
  void load_state(const std::vector<ParameterState>& state) override { local_.load_state(state); }
  [[nodiscard]] Counters counters() const override { return {{"step", averager_.step()}}; }
  void load_counters(const Counters& counters) override;

 private:
  [[nodiscard]] Hyperparameters own_hyperparameters(std::size_t group) const override {
    return local_.hyperparameters(group);
  }
  [[nodiscard]] std::vector<std::string> state_names(std::size_t /*group*/) const override { return {}; }
  void update(std::size_t /*group*/, Batch& /*batch*/) override {}

  FusedOptimizer& local_;
  ModelAverager& averager_;
};

}  // namespace ddprun
