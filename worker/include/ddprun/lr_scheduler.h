#pragma once

#include <ddprun/scheduled_groups.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

/// Python's torch.optim.lr_scheduler: the same classes, parameters and defaults, and after every step the
/// same rates to the last bit, because each follows Python's recursion with the same operations in the same
/// order (a closed form of the same schedule differs in the last bits).
///
///     FusedSgd optimizer(model->parameters(), {.lr = 0.1});
///     CosineAnnealingLR scheduler(optimizer, {.T_max = 90});
///     for (int epoch = 0; epoch < 90; ++epoch) {
///       …  // train with optimizer.learning_rate()
///       scheduler.step();  // once an epoch or once a step: the unit is the caller's
///     }
///
/// A scheduler sets the rate of its first step when it is constructed. It refers to its optimizer, which must
/// outlive it. Not collective: every rank computes the same. To resume, construct optimizer and scheduler as
/// at the start, then load the optimizer's state and the scheduler's (checkpoint.h).
///
/// Errors   Exception kConfig, naming class, parameter and value, for what Python's class refuses.
/// Threads  none: only the thread that steps the optimizer may use them.
/// Source   torch/optim/lr_scheduler.py of release 2.11.
namespace ddprun {

/// What moves in a scheduler: what its state_dict() holds besides the parameters it was constructed with.
struct SchedulerState {
  std::int64_t last_epoch = 0;  ///< steps taken
  std::int64_t step_count = 0;
  std::vector<double> base_lrs;  ///< "initial_lr" of each group
  std::vector<double> last_lr;
  /// What only this class has, by Python's names: "T_cur" and "T_i", "best" …
  std::vector<std::pair<std::string, std::variant<std::int64_t, double>>> own;
  std::size_t lambdas = 0;                 ///< functions of the class: they are not saved
  std::vector<SchedulerState> schedulers;  ///< of SequentialLR and ChainedScheduler
};

/// What all schedulers have in common.
class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  /// Sets the rates of the next epoch or step. Call it after optimizer.step().
  virtual void step();

  /// The rate of each group after the last step.
  [[nodiscard]] const std::vector<double>& get_last_lr() const { return last_lr_; }
  [[nodiscard]] std::int64_t last_epoch() const { return last_epoch_; }
  [[nodiscard]] const ScheduledGroups& optimizer() const { return groups_; }

  [[nodiscard]] virtual std::string name() const = 0;  ///< Python's class
  [[nodiscard]] virtual SchedulerState state() const;
  /// Errors  Exception kConfig: of another number of groups or schedulers, or of another class; then nothing
  ///         has changed.
  virtual void load_state(const SchedulerState& state);

 protected:
  explicit LRScheduler(ScheduledGroups& groups);

  /// The last act of every constructor.
  void initial_step();
  /// The rates at last_epoch_, from those before.
  [[nodiscard]] virtual std::vector<double> get_lr() = 0;
  /// The rates at epoch 0, from the initial ones: SequentialLR begins each schedule but the first so.
  [[nodiscard]] virtual std::vector<double> first_lr() { return get_lr(); }
  /// Can SequentialLR begin it at a milestone? In Python a scheduler made of others cannot.
  [[nodiscard]] virtual bool can_begin_later() const { return true; }
  /// Takes one epoch back, for SequentialLR.
  virtual void undo() { --last_epoch_; }
  void set_lr(const std::vector<double>& rates);
  void remember_lr();
  /// Throws unless `state` fits.
  virtual void check_state(const SchedulerState& state) const;
  [[nodiscard]] virtual std::size_t lambda_count() const { return 0; }

  [[nodiscard]] std::vector<double> current_lr() const;
  ScheduledGroups& groups_;
  std::vector<double> base_lrs_;
  std::vector<double> last_lr_;
  std::int64_t last_epoch_ = -1;
  std::int64_t step_count_ = 0;
  bool is_initial_ = false;

 private:
  friend class CombinedScheduler;
  friend class SequentialLR;
  friend class ChainedScheduler;
};

/// base · lr_lambda(epoch).
class LambdaLR final : public LRScheduler {
 public:
  using Lambda = std::function<double(std::int64_t epoch)>;

  LambdaLR(ScheduledGroups& optimizer, Lambda lr_lambda);
  /// One function per group.
  LambdaLR(ScheduledGroups& optimizer, std::vector<Lambda> lr_lambdas);
  [[nodiscard]] std::string name() const override { return "LambdaLR"; }

 private:
  std::vector<double> get_lr() override;
  [[nodiscard]] std::size_t lambda_count() const override { return lambdas_.size(); }
  std::vector<Lambda> lambdas_;
};

/// The rate before · lr_lambda(epoch).
class MultiplicativeLR final : public LRScheduler {
 public:
  using Lambda = LambdaLR::Lambda;

  MultiplicativeLR(ScheduledGroups& optimizer, Lambda lr_lambda);
  MultiplicativeLR(ScheduledGroups& optimizer, std::vector<Lambda> lr_lambdas);
  [[nodiscard]] std::string name() const override { return "MultiplicativeLR"; }

 private:
  std::vector<double> get_lr() override;
  [[nodiscard]] std::size_t lambda_count() const override { return lambdas_.size(); }
  std::vector<Lambda> lambdas_;
};

struct StepLROptions {
  std::int64_t step_size = 1;  ///< > 0
  double gamma = 0.1;
};

/// · gamma every step_size epochs.
class StepLR final : public LRScheduler {
 public:
  StepLR(ScheduledGroups& optimizer, const StepLROptions& options);
  [[nodiscard]] std::string name() const override { return "StepLR"; }

 private:
  std::vector<double> get_lr() override;
  std::vector<double> first_lr() override;
  StepLROptions options_;
};

struct MultiStepLROptions {
  std::vector<std::int64_t> milestones;  ///< in any order; one that comes twice counts twice
  double gamma = 0.1;
};

/// · gamma at each milestone.
class MultiStepLR final : public LRScheduler {
 public:
  MultiStepLR(ScheduledGroups& optimizer, const MultiStepLROptions& options);
  [[nodiscard]] std::string name() const override { return "MultiStepLR"; }

 private:
  std::vector<double> get_lr() override;
  std::vector<double> first_lr() override;
  std::map<std::int64_t, std::int64_t> milestones_;  // how often each comes
  double gamma_;
};

struct ConstantLROptions {
  double factor = 1.0 / 3;  ///< in (0, 1]
  std::int64_t total_iters = 5;
};

/// · factor until epoch total_iters.
class ConstantLR final : public LRScheduler {
 public:
  ConstantLR(ScheduledGroups& optimizer, const ConstantLROptions& options);
  [[nodiscard]] std::string name() const override { return "ConstantLR"; }

 private:
  std::vector<double> get_lr() override;
  std::vector<double> first_lr() override;
  ConstantLROptions options_;
};

struct LinearLROptions {
  double start_factor = 1.0 / 3;  ///< in (0, 1]
  double end_factor = 1.0;        ///< in [0, 1]
  std::int64_t total_iters = 5;
};

/// From start_factor to end_factor in total_iters equal steps: warm-up.
class LinearLR final : public LRScheduler {
 public:
  LinearLR(ScheduledGroups& optimizer, const LinearLROptions& options);
  [[nodiscard]] std::string name() const override { return "LinearLR"; }

 private:
  std::vector<double> get_lr() override;
  std::vector<double> first_lr() override;
  LinearLROptions options_;
};

struct ExponentialLROptions {
  double gamma = 0.1;
};

/// · gamma every epoch.
class ExponentialLR final : public LRScheduler {
 public:
  ExponentialLR(ScheduledGroups& optimizer, const ExponentialLROptions& options);
  [[nodiscard]] std::string name() const override { return "ExponentialLR"; }

 private:
  std::vector<double> get_lr() override;
  std::vector<double> first_lr() override;
  double gamma_;
};

struct PolynomialLROptions {
  std::int64_t total_iters = 5;
  double power = 1.0;
};

/// (1 − epoch / total_iters) to the power, then 0.
class PolynomialLR final : public LRScheduler {
 public:
  PolynomialLR(ScheduledGroups& optimizer, const PolynomialLROptions& options);
  [[nodiscard]] std::string name() const override { return "PolynomialLR"; }

 private:
  std::vector<double> get_lr() override;
  std::vector<double> first_lr() override;
  PolynomialLROptions options_;
};

struct CosineAnnealingLROptions {
  std::int64_t T_max = 1;  ///< epochs from the first rate down to eta_min; > 0
  double eta_min = 0;
};

/// Half a cosine down to eta_min in T_max epochs, and up again after it.
/// Source  Loshchilov and Hutter, "SGDR", ICLR 2017, without the restarts.
class CosineAnnealingLR final : public LRScheduler {
 public:
  CosineAnnealingLR(ScheduledGroups& optimizer, const CosineAnnealingLROptions& options);
  [[nodiscard]] std::string name() const override { return "CosineAnnealingLR"; }

 private:
  std::vector<double> get_lr() override;
  std::vector<double> first_lr() override;
  CosineAnnealingLROptions options_;
};

struct CosineAnnealingWarmRestartsOptions {
  std::int64_t T_0 = 1;     ///< epochs to the first restart; > 0
  std::int64_t T_mult = 1;  ///< each cycle is so many times as long as the one before; ≥ 1
  double eta_min = 0;
};

/// Half a cosine down to eta_min, then back at the first rate: SGDR.
class CosineAnnealingWarmRestarts final : public LRScheduler {
 public:
  CosineAnnealingWarmRestarts(ScheduledGroups& optimizer, const CosineAnnealingWarmRestartsOptions& options);

  void step() override;
  /// The rates at `epoch`, which may be a fraction (epoch + batch / batches) and may go back; ≥ 0.
  void step(double epoch);

  [[nodiscard]] SchedulerState state() const override;
  void load_state(const SchedulerState& state) override;
  [[nodiscard]] std::string name() const override { return "CosineAnnealingWarmRestarts"; }

 private:
  std::vector<double> get_lr() override;
  void check_state(const SchedulerState& state) const override;
  CosineAnnealingWarmRestartsOptions options_;
  double t_cur_ = -1;
  double t_i_;
};

enum class AnnealStrategy { kCos, kLinear };

struct OneCycleLROptions {
  std::vector<double> max_lr;    ///< one for all groups, or one per group
  std::int64_t total_steps = 0;  ///< > 0; step() throws after that many
  double pct_start = 0.3;        ///< the part of the cycle in which the rate rises
  AnnealStrategy anneal_strategy = AnnealStrategy::kCos;
  bool cycle_momentum = true;               ///< move momentum (or beta1) against the rate
  std::vector<double> base_momentum{0.85};  ///< one for all groups, or one per group
  std::vector<double> max_momentum{0.95};
  double div_factor = 25;         ///< the first rate is max_lr / div_factor
  double final_div_factor = 1e4;  ///< the last one is the first / final_div_factor
  bool three_phase = false;       ///< down as long as up, and then to the last one
};

/// Up to max_lr and down below the first rate, once; step it once a batch. It sets "initial_lr" and the
/// momentum itself.
/// Source  Smith and Topin, "Super-Convergence", 2017.
class OneCycleLR final : public LRScheduler {
 public:
  OneCycleLR(ScheduledGroups& optimizer, const OneCycleLROptions& options);
  [[nodiscard]] std::string name() const override { return "OneCycleLR"; }

 private:
  struct Phase {
    double end_step;
    const char *start_lr, *end_lr, *start_momentum, *end_momentum;  // entries of the group
  };
  std::vector<double> get_lr() override;
  [[nodiscard]] double anneal(double start, double end, double part) const;
  OneCycleLROptions options_;
  std::vector<Phase> phases_;
};

/// A scheduler made of others: what SequentialLR and ChainedScheduler have in common.
class CombinedScheduler : public LRScheduler {
 public:
  [[nodiscard]] SchedulerState state() const override;
  void load_state(const SchedulerState& state) override;

 protected:
  CombinedScheduler(ScheduledGroups& groups, std::vector<LRScheduler*> schedulers);
  void undo() override;
  std::vector<LRScheduler*> schedulers_;

 private:
  std::vector<double> get_lr() override { return current_lr(); }
  [[nodiscard]] bool can_begin_later() const override { return false; }
  void check_state(const SchedulerState& state) const override;
};

/// One schedule after the other: schedulers[i] until epoch milestones[i], each counting from 0. A warm-up is
///
///     LinearLR warm_up(optimizer, {.start_factor = 0.01, .total_iters = 5});
///     CosineAnnealingLR cosine(optimizer, {.T_max = 85});
///     SequentialLR scheduler(optimizer, {&warm_up, &cosine}, {5});
///
/// Construct it directly after its schedulers, which must outlive it and are stepped by it alone. One more
/// scheduler than milestones; milestones rise. A SequentialLR or ChainedScheduler can only be the first of
/// them.
class SequentialLR final : public CombinedScheduler {
 public:
  SequentialLR(ScheduledGroups& optimizer, std::vector<LRScheduler*> schedulers,
               std::vector<std::int64_t> milestones);

  void step() override;
  void load_state(const SchedulerState& state) override;
  [[nodiscard]] std::string name() const override { return "SequentialLR"; }

 private:
  std::vector<std::int64_t> milestones_;
};

/// All schedulers at every step, each on the rate that the one before has left. They must outlive it and are
/// stepped by it alone.
class ChainedScheduler final : public CombinedScheduler {
 public:
  explicit ChainedScheduler(std::vector<LRScheduler*> schedulers);

  void step() override;
  [[nodiscard]] std::string name() const override { return "ChainedScheduler"; }
};

struct ReduceLROnPlateauOptions {
  enum class Mode { kMin, kMax };
  enum class ThresholdMode { kRel, kAbs };

  Mode mode = Mode::kMin;      ///< is a smaller metric better, or a larger one?
  double factor = 0.1;         ///< < 1
  std::int64_t patience = 10;  ///< so many steps without a better metric are let pass
  double threshold = 1e-4;     ///< better by more than this counts
  ThresholdMode threshold_mode = ThresholdMode::kRel;
  std::int64_t cooldown = 0;      ///< steps after a reduction in which none is counted
  std::vector<double> min_lr{0};  ///< one for all groups, or one per group
  double eps = 1e-8;              ///< a smaller change of the rate is not made
};

/// · factor when a metric has stopped getting better. Not a part of SequentialLR or ChainedScheduler, since
/// its step takes the metric, which has to be the same on every rank.
class ReduceLROnPlateau {
 public:
  ReduceLROnPlateau(ScheduledGroups& optimizer, const ReduceLROnPlateauOptions& options = {});

  void step(double metric);

  [[nodiscard]] const std::vector<double>& get_last_lr() const { return last_lr_; }
  [[nodiscard]] double best() const { return best_; }
  [[nodiscard]] SchedulerState state() const;
  /// Errors  Exception kConfig: not the state of a ReduceLROnPlateau of as many groups; then nothing has
  ///         changed.
  void load_state(const SchedulerState& state);

 private:
  [[nodiscard]] bool is_better(double metric) const;

  ScheduledGroups& groups_;
  ReduceLROnPlateauOptions options_;
  std::int64_t last_epoch_ = 0;
  std::vector<double> last_lr_;
  double best_;
  std::int64_t cooldown_counter_ = 0;
  std::int64_t num_bad_epochs_ = 0;
};

}  // namespace ddprun
