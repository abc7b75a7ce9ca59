#pragma once

#include <ddprun/scheduled_groups.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// What zero_grad() leaves of a gradient.
enum class ZeroGrad {
  kReset,    ///< nothing, as by default in Python: the next backward saves filling, adding and scaling it
  kInPlace,  ///< zeros in the same memory: parameters that get no gradient are then updated as well
};

/// Parameters that share hyperparameters: one of Python's param_groups.
template <class Options>
struct ParameterGroup {
  std::vector<at::Tensor> parameters;
  Options options;
};

/// What a GradScaler adds to a step: both float32 scalars, or undefined.
struct StepScale {
  at::Tensor grad_scale;  ///< gradients are divided by it
  at::Tensor found_inf;   ///< not 0: the step changes nothing, and no host waits to know (but see FusedSgd)
};

/// An optimizer whose step is one ATen fused kernel per group, device and dtype (where ATen has one): what
/// Python runs with `fused=True`, so that both end with the same bits. State and hyperparameters have the
/// names and the order of Python's `state_dict()`. Schedulers (lr_scheduler.h) take it as it is.
///
/// Not collective: DistributedDataParallel has already averaged the gradients.
/// Errors  Exception kConfig, from the constructor: a parameter that is in more than one group, that is not defined,
///         or that is computed from others and keeps no gradient (Python: "can't optimize a non-leaf Tensor");
///         hyperparameters that Python's class refuses, and NaN. What is set later is not looked at, as in Python.
class FusedOptimizer : public ScheduledGroups {
 public:
  /// State of one parameter by Python's names and in its order: "momentum_buffer", or "step" (a float32
  /// scalar), "exp_avg", "exp_avg_sq", "max_exp_avg_sq". Empty before the parameter's first step.
  using ParameterState = std::vector<std::pair<std::string, at::Tensor>>;
  /// One entry of Python's param_groups, without "params": name and value in Python's order.
  using Hyperparameters = std::vector<std::pair<std::string, c10::IValue>>;
  /// Whole numbers that Python's state_dict() has beside "state" and "param_groups".
  using Counters = std::vector<std::pair<std::string, std::int64_t>>;

  /// Updates every parameter that has a gradient.
  void step() { step(StepScale{}); }
  virtual void step(const StepScale& scale);
  /// What a step does beside the update, for one that a GradScaler leaves out: collectives in which other ranks take
  /// part all the same. By default nothing.
  virtual void skip_step() {}
  /// step() for those of `parameters` alone that are this optimizer's: the updates of all parts are together
  /// those of one step().
  /// Errors  Exception kConfig where can_step_in_parts() is false.
  void step_some(const std::vector<at::Tensor>& parameters);
  [[nodiscard]] virtual bool can_step_in_parts() const { return true; }
  /// Does step() understand a StepScale? If not, a GradScaler waits for the device to learn whether it may
  /// step, and calls skip_step() where it may not.
  [[nodiscard]] virtual bool supports_scale() const { return true; }
  /// Ends the accumulation of gradients. With either way, gradients that are views into DDP's buckets are
  /// such views again after the next backward.
  void zero_grad(ZeroGrad how = ZeroGrad::kReset);

  [[nodiscard]] virtual std::string name() const = 0;  ///< Python's class: "SGD", "Adam", "AdamW" …

  using ScheduledGroups::learning_rate;
  using ScheduledGroups::set_learning_rate;
  [[nodiscard]] double learning_rate() const { return learning_rate(0); }  ///< of the first group
  void set_learning_rate(double learning_rate);                            ///< of all groups

  /// What a scheduler keeps with the group comes last, as in Python.
  [[nodiscard]] Hyperparameters hyperparameters(std::size_t group = 0) const;
  /// One entry per parameter. Tensors are shared, not copied.
  [[nodiscard]] virtual std::vector<ParameterState> state() const { return state_; }
  /// Copies what `state()` gave, of this or another process. Throws Exception kConfig, naming parameter
  /// index, entry and shapes, for what does not fit; then nothing has changed.
  virtual void load_state(const std::vector<ParameterState>& state);

  [[nodiscard]] virtual Counters counters() const { return {}; }
  /// Those of a state_dict(), as far as counters() names them.
  virtual void load_counters(const Counters& /*counters*/) {}

  /// Of all groups, group by group.
  [[nodiscard]] const std::vector<at::Tensor>& parameters() const { return parameters_; }
  /// How many parameters each group has.
  [[nodiscard]] const std::vector<std::size_t>& group_sizes() const { return group_sizes_; }
  [[nodiscard]] std::size_t group_count() const override { return group_sizes_.size(); }

 protected:
  /// Parameters of one group, device and dtype that have a dense gradient, with their state: state[i] holds
  /// every parameter's entry of the i-th of state_names(). No entries: state is empty.
  struct Batch {
    std::vector<std::size_t> indices;  ///< in parameters()
    std::vector<at::Tensor> parameters, gradients;
    std::vector<std::vector<at::Tensor>> state;
    bool is_first_step = false;  ///< of all these parameters; others are in a batch of their own
    StepScale scale;             ///< on their device
  };

  FusedOptimizer() = default;
  void append_group(std::vector<at::Tensor> parameters);
  [[nodiscard]] virtual Hyperparameters own_hyperparameters(std::size_t group) const = 0;
  /// The names of the state that a parameter of `group` may have.
  [[nodiscard]] virtual std::vector<std::string> state_names(std::size_t group) const = 0;
  /// An entry before the first step: by default zeros, for "step" a scalar. Undefined: this one has no such
  /// entry.
  [[nodiscard]] virtual at::Tensor new_state(std::size_t group, const std::string& name,
                                             const at::Tensor& parameter) const;
  virtual void update(std::size_t group, Batch& batch) = 0;
  /// State for every parameter from the start, where Python's class has it.
  void make_all_states();
  /// Gives gradients their sign and weight decay, and takes complex tensors of `batch` for pairs of real numbers in
  /// the same memory, as Python's lists have them: the kernels square and divide complex numbers otherwise. The state
  /// keeps its type. The order of both, which rounds, is that of Python's default: on the CPU the decay comes first.
  /// Errors  Exception kConfig: a parameter is a conjugate view, whose memory has other numbers.
  void decay_as_real(Batch& batch, bool maximize, double weight_decay) const;
  [[nodiscard]] std::span<const at::Tensor> parameters_of(std::size_t group) const;
  /// The next step of these parameters is their first again.
  void forget(const Batch& batch);
  /// False where sparse gradients go into a batch like others. `scale` is on the parameter's device.
  virtual bool update_sparse(std::size_t group, const at::Tensor& parameter, const at::Tensor& gradient,
                             const StepScale& scale);

 private:
  [[nodiscard]] ParameterState make_state(std::size_t group, const at::Tensor& parameter) const;
  void check_state(const std::vector<ParameterState>& state) const;
  void step_groups(const StepScale& scale, const std::set<const void*>* only);
  void step_group(std::size_t group, std::size_t first, const StepScale& scale,
                  const std::set<const void*>* only);

  std::vector<at::Tensor> parameters_;
  std::vector<std::size_t> group_sizes_;
  std::vector<ParameterState> state_;
};

/// A FusedOptimizer whose groups each have `Options` of their own.
template <class Options>
class GroupedOptimizer : public FusedOptimizer {
 public:
  using Groups = std::vector<ParameterGroup<Options>>;

  /// May be changed between two steps. Options that need more state than the first step made (momentum of
  /// RMSprop above 0, amsgrad, centered) have to be set before it: the next step throws Exception kConfig.
  [[nodiscard]] Options& options(std::size_t group = 0) { return options_.at(group); }
  [[nodiscard]] const Options& options(std::size_t group = 0) const { return options_.at(group); }

  using FusedOptimizer::learning_rate;
  using FusedOptimizer::set_learning_rate;
  [[nodiscard]] double learning_rate(std::size_t group) const override { return options(group).lr; }
  void set_learning_rate(std::size_t group, double rate) override { options(group).lr = rate; }

 protected:
  explicit GroupedOptimizer(Groups groups) {
    for (ParameterGroup<Options>& group : groups) {
      append_group(std::move(group.parameters));
      options_.push_back(std::move(group.options));
    }
  }

 private:
  std::vector<Options> options_;
};

struct FusedSgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
};

/// Stochastic gradient descent, torch.optim.SGD(fused=True). Sparse gradients are subtracted as they are;
/// momentum and weight decay throw Exception kConfig then. With momentum and dampening, a parameter's first step
/// under a GradScaler waits for the device to learn of an overflow.
class FusedSgd final : public GroupedOptimizer<FusedSgdOptions> {
 public:
  FusedSgd(std::vector<at::Tensor> parameters, const FusedSgdOptions& options)
      : FusedSgd(Groups{{std::move(parameters), options}}) {}
  explicit FusedSgd(Groups groups);

  [[nodiscard]] std::string name() const override { return "SGD"; }
  [[nodiscard]] std::optional<double> momentum(std::size_t group) const override {
    return options(group).momentum;
  }
  void set_momentum(std::size_t group, double momentum) override { options(group).momentum = momentum; }

 private:
  [[nodiscard]] Hyperparameters own_hyperparameters(std::size_t group) const override;
  [[nodiscard]] std::vector<std::string> state_names(std::size_t group) const override;
  [[nodiscard]] at::Tensor new_state(std::size_t group, const std::string& name,
                                     const at::Tensor& parameter) const override;
  void update(std::size_t group, Batch& batch) override;
  bool update_sparse(std::size_t group, const at::Tensor& parameter, const at::Tensor& gradient,
                     const StepScale& scale) override;
};

struct FusedAdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
  /// Decay the weights themselves and not through the gradient: AdamW. One for all groups.
  bool decoupled_weight_decay = false;
};

/// torch.optim.Adam(fused=True), and with decoupled weight decay torch.optim.AdamW(fused=True).
/// Errors  c10::Error for sparse gradients, as in Python.
class FusedAdam final : public GroupedOptimizer<FusedAdamOptions> {
 public:
  FusedAdam(std::vector<at::Tensor> parameters, const FusedAdamOptions& options)
      : FusedAdam(Groups{{std::move(parameters), options}}) {}
  explicit FusedAdam(Groups groups);

  [[nodiscard]] std::string name() const override {
    return options().decoupled_weight_decay ? "AdamW" : "Adam";
  }
  [[nodiscard]] std::optional<double> momentum(std::size_t group) const override {
    return options(group).beta1;
  }
  void set_momentum(std::size_t group, double momentum) override { options(group).beta1 = momentum; }

 private:
  [[nodiscard]] Hyperparameters own_hyperparameters(std::size_t group) const override;
  [[nodiscard]] std::vector<std::string> state_names(std::size_t group) const override;
  void update(std::size_t group, Batch& batch) override;
};

struct FusedAdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;
};

/// torch.optim.Adagrad: on the CPU ATen's fused kernel, so fused=True; on other devices, and for complex parameters,
/// for which there is none, ATen's list operations, so foreach=True. State: "step" and "sum", from the start.
/// Errors  c10::Error for sparse gradients, as in Python with fused=True.
/// Source  Duchi et al., "Adaptive Subgradient Methods", JMLR 2011.
class FusedAdagrad final : public GroupedOptimizer<FusedAdagradOptions> {
 public:
  FusedAdagrad(std::vector<at::Tensor> parameters, const FusedAdagradOptions& options)
      : FusedAdagrad(Groups{{std::move(parameters), options}}) {}
  explicit FusedAdagrad(Groups groups);

  [[nodiscard]] std::string name() const override { return "Adagrad"; }
  [[nodiscard]] bool supports_scale()
      const override;  ///< on CPUs, where that of this libtorch's Python does, no complex ones
  [[nodiscard]] std::optional<double> momentum(std::size_t /*group*/) const override { return std::nullopt; }
  void set_momentum(std::size_t /*group*/, double /*momentum*/) override {}

 private:
  [[nodiscard]] Hyperparameters own_hyperparameters(std::size_t group) const override;
  [[nodiscard]] std::vector<std::string> state_names(std::size_t group) const override;
  [[nodiscard]] at::Tensor new_state(std::size_t group, const std::string& name,
                                     const at::Tensor& parameter) const override;
  void update(std::size_t group, Batch& batch) override;
};

struct RmspropOptions {
  double lr = 1e-2;
  double momentum = 0;
  double alpha = 0.99;
  double eps = 1e-8;
  bool centered = false;
  double weight_decay = 0;
  bool maximize = false;
};

/// torch.optim.RMSprop, for which ATen has no fused kernel: ATen's list operations (foreach=True), on the CPU
/// the same bits as Python's default. State: "step", "square_avg", with momentum "momentum_buffer", centered
/// "grad_avg".
/// Errors  c10::Error for sparse gradients.
/// Source  Hinton, lecture 6e of "Neural Networks for Machine Learning", 2012.
class Rmsprop final : public GroupedOptimizer<RmspropOptions> {
 public:
  Rmsprop(std::vector<at::Tensor> parameters, const RmspropOptions& options)
      : Rmsprop(Groups{{std::move(parameters), options}}) {}
  explicit Rmsprop(Groups groups);

  [[nodiscard]] std::string name() const override { return "RMSprop"; }
  [[nodiscard]] bool supports_scale() const override { return false; }
  [[nodiscard]] std::optional<double> momentum(std::size_t group) const override {
    return options(group).momentum;
  }
  void set_momentum(std::size_t group, double momentum) override { options(group).momentum = momentum; }

 private:
  [[nodiscard]] Hyperparameters own_hyperparameters(std::size_t group) const override;
  [[nodiscard]] std::vector<std::string> state_names(std::size_t group) const override;
  [[nodiscard]] at::Tensor new_state(std::size_t group, const std::string& name,
                                     const at::Tensor& parameter) const override;
  void update(std::size_t group, Batch& batch) override;
};

}  // namespace ddprun
