// Each get_lr() and first_lr() has Python's expression, operation by operation: x87, contraction to fused
// multiply-add or an algebraic shortcut would change last bits (this file is compiled with
// -ffp-contract=off).
#include <ddprun/exception.h>
#include <ddprun/lr_scheduler.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace ddprun {
namespace {

using std::numbers::pi;

[[noreturn]] void refuse(const std::string& text) { throw Exception(ErrorCode::kConfig, text); }

void check_positive(const char* name, const char* parameter, std::int64_t value) {
  if (value <= 0) refuse(fmt::format("{}: {} is {}; it has to be at least 1", name, parameter, value));
}

// Python's _format_param: one value for all groups, or one each.
std::vector<double> per_group(const char* name, const char* parameter, std::vector<double> values,
                              std::size_t groups) {
  if (values.size() == 1) values.resize(groups, values.front());
  if (values.size() != groups) {
    refuse(fmt::format("{}: {} has {} values for {} parameter groups; give one value, or one per group", name,
                       parameter, values.size(), groups));
  }
  return values;
}

template <class Lambda>
std::vector<Lambda> lambdas_per_group(const char* name, std::vector<Lambda> lambdas, std::size_t groups) {
  if (lambdas.size() != groups) {
    refuse(fmt::format("{}: it got {} functions for {} parameter groups; give one per group", name,
                       lambdas.size(), groups));
  }
  return lambdas;
}

template <class Change>
std::vector<double> changed(std::vector<double> rates, Change change) {
  for (double& rate : rates) rate = change(rate);
  return rates;
}

double own_value(const SchedulerState& state, const std::string& scheduler, const char* name) {
  for (const auto& [key, value] : state.own) {
    if (key == name) return std::visit([](auto number) { return static_cast<double>(number); }, value);
  }
  refuse(fmt::format("{}: the state has no \"{}\"; is it of another scheduler?", scheduler, name));
}

// As Python would have it: what counts whole epochs is an int.
std::variant<std::int64_t, double> int_or_double(double value) {
  if (value == std::floor(value) && std::abs(value) < 0x1p53) return static_cast<std::int64_t>(value);
  return value;
}

void check_rates(const std::string& scheduler, const char* name, const std::vector<double>& rates,
                 std::size_t groups) {
  if (rates.size() == groups) return;
  refuse(fmt::format("{}: the state has {} entries in \"{}\", the optimizer has {} parameter groups",
                     scheduler, rates.size(), name, groups));
}

}  // namespace

LRScheduler::LRScheduler(ScheduledGroups& groups) : groups_(groups) {
  for (std::size_t i = 0; i < groups.group_count(); ++i) {
    if (!groups.entry(i, "initial_lr")) groups.set_entry(i, "initial_lr", groups.learning_rate(i));
    base_lrs_.push_back(*groups.entry(i, "initial_lr"));
  }
}

void LRScheduler::initial_step() {
  step_count_ = 0;
  is_initial_ = true;
  step();
  is_initial_ = false;
}

void LRScheduler::step() {
  ++step_count_;
  ++last_epoch_;
  set_lr(get_lr());
}

void LRScheduler::set_lr(const std::vector<double>& rates) {
  for (std::size_t i = 0; i < rates.size(); ++i) groups_.set_learning_rate(i, rates[i]);
  remember_lr();
}

void LRScheduler::remember_lr() { last_lr_ = current_lr(); }

std::vector<double> LRScheduler::current_lr() const {
  std::vector<double> rates;
  for (std::size_t i = 0; i < groups_.group_count(); ++i) rates.push_back(groups_.learning_rate(i));
  return rates;
}

SchedulerState LRScheduler::state() const {
  SchedulerState state;
  state.last_epoch = last_epoch_;
  state.step_count = step_count_;
  state.base_lrs = base_lrs_;
  state.last_lr = last_lr_;
  state.lambdas = lambda_count();
  return state;
}

void LRScheduler::check_state(const SchedulerState& state) const {
  check_rates(name(), "base_lrs", state.base_lrs, base_lrs_.size());
  check_rates(name(), "_last_lr", state.last_lr, base_lrs_.size());
}

void LRScheduler::load_state(const SchedulerState& state) {
  check_state(state);
  last_epoch_ = state.last_epoch;
  step_count_ = state.step_count;
  base_lrs_ = state.base_lrs;
  last_lr_ = state.last_lr;
}

LambdaLR::LambdaLR(ScheduledGroups& optimizer, Lambda lr_lambda)
    : LambdaLR(optimizer, std::vector<Lambda>(optimizer.group_count(), std::move(lr_lambda))) {}

LambdaLR::LambdaLR(ScheduledGroups& optimizer, std::vector<Lambda> lr_lambdas)
    : LRScheduler(optimizer),
      lambdas_(lambdas_per_group("LambdaLR", std::move(lr_lambdas), base_lrs_.size())) {
  initial_step();
}

std::vector<double> LambdaLR::get_lr() {
  std::vector<double> rates;
  for (std::size_t i = 0; i < base_lrs_.size(); ++i) rates.push_back(base_lrs_[i] * lambdas_[i](last_epoch_));
  return rates;
}

MultiplicativeLR::MultiplicativeLR(ScheduledGroups& optimizer, Lambda lr_lambda)
    : MultiplicativeLR(optimizer, std::vector<Lambda>(optimizer.group_count(), std::move(lr_lambda))) {}

MultiplicativeLR::MultiplicativeLR(ScheduledGroups& optimizer, std::vector<Lambda> lr_lambdas)
    : LRScheduler(optimizer),
      lambdas_(lambdas_per_group("MultiplicativeLR", std::move(lr_lambdas), base_lrs_.size())) {
  initial_step();
}

std::vector<double> MultiplicativeLR::get_lr() {
  std::vector<double> rates = current_lr();
  if (is_initial_) return rates;
  for (std::size_t i = 0; i < rates.size(); ++i) rates[i] = rates[i] * lambdas_[i](last_epoch_);
  return rates;
}

StepLR::StepLR(ScheduledGroups& optimizer, const StepLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  check_positive("StepLR", "step_size", options.step_size);
  initial_step();
}

std::vector<double> StepLR::get_lr() {
  if (last_epoch_ == 0 || last_epoch_ % options_.step_size != 0) return current_lr();
  return changed(current_lr(), [&](double lr) { return lr * options_.gamma; });
}

std::vector<double> StepLR::first_lr() { return base_lrs_; }

MultiStepLR::MultiStepLR(ScheduledGroups& optimizer, const MultiStepLROptions& options)
    : LRScheduler(optimizer), gamma_(options.gamma) {
  for (const std::int64_t milestone : options.milestones) ++milestones_[milestone];
  initial_step();
}

std::vector<double> MultiStepLR::get_lr() {
  const auto hit = milestones_.find(last_epoch_);
  if (hit == milestones_.end()) return current_lr();
  const double factor = std::pow(gamma_, static_cast<double>(hit->second));
  return changed(current_lr(), [&](double lr) { return lr * factor; });
}

std::vector<double> MultiStepLR::first_lr() {
  std::int64_t passed = 0;
  for (const auto& [milestone, times] : milestones_) passed += milestone <= 0 ? times : 0;
  const double factor = std::pow(gamma_, static_cast<double>(passed));
  return changed(base_lrs_, [&](double base) { return base * factor; });
}

ConstantLR::ConstantLR(ScheduledGroups& optimizer, const ConstantLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  if (!(options.factor > 0 && options.factor <= 1)) {
    refuse(fmt::format("ConstantLR: factor is {}; it has to be in (0, 1]", options.factor));
  }
  initial_step();
}

std::vector<double> ConstantLR::get_lr() {
  if (last_epoch_ == 0) return changed(current_lr(), [&](double lr) { return lr * options_.factor; });
  if (last_epoch_ != options_.total_iters) return current_lr();
  return changed(current_lr(), [&](double lr) { return lr * (1.0 / options_.factor); });
}

std::vector<double> ConstantLR::first_lr() {
  const double is_over = options_.total_iters <= 0 ? 1 : 0;
  return changed(base_lrs_,
                 [&](double base) { return base * (options_.factor + is_over * (1 - options_.factor)); });
}

LinearLR::LinearLR(ScheduledGroups& optimizer, const LinearLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  if (!(options.start_factor > 0 && options.start_factor <= 1)) {
    refuse(fmt::format("LinearLR: start_factor is {}; it has to be in (0, 1]", options.start_factor));
  }
  if (!(options.end_factor >= 0 && options.end_factor <= 1)) {
    refuse(fmt::format("LinearLR: end_factor is {}; it has to be in [0, 1]", options.end_factor));
  }
  initial_step();
}

std::vector<double> LinearLR::get_lr() {
  const double start = options_.start_factor, end = options_.end_factor;
  if (last_epoch_ == 0) return changed(current_lr(), [&](double lr) { return lr * start; });
  if (is_initial_ || last_epoch_ > options_.total_iters) return current_lr();
  const double total = static_cast<double>(options_.total_iters);
  const double before = static_cast<double>(last_epoch_ - 1);
  return changed(current_lr(), [&](double lr) {
    return lr * (1.0 + (end - start) / (total * start + before * (end - start)));
  });
}

std::vector<double> LinearLR::first_lr() {
  return changed(base_lrs_, [&](double base) { return base * options_.start_factor; });
}

ExponentialLR::ExponentialLR(ScheduledGroups& optimizer, const ExponentialLROptions& options)
    : LRScheduler(optimizer), gamma_(options.gamma) {
  initial_step();
}

std::vector<double> ExponentialLR::get_lr() {
  if (is_initial_) return current_lr();
  return changed(current_lr(), [&](double lr) { return lr * gamma_; });
}

std::vector<double> ExponentialLR::first_lr() { return base_lrs_; }

PolynomialLR::PolynomialLR(ScheduledGroups& optimizer, const PolynomialLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  initial_step();
}

std::vector<double> PolynomialLR::get_lr() {
  if (is_initial_ || last_epoch_ > options_.total_iters) return current_lr();
  const double total = static_cast<double>(options_.total_iters);
  const double epoch = static_cast<double>(last_epoch_);
  const double factor = std::pow((1.0 - epoch / total) / (1.0 - (epoch - 1) / total), options_.power);
  return changed(current_lr(), [&](double lr) { return lr * factor; });
}

std::vector<double> PolynomialLR::first_lr() { return base_lrs_; }

CosineAnnealingLR::CosineAnnealingLR(ScheduledGroups& optimizer, const CosineAnnealingLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  check_positive("CosineAnnealingLR", "T_max", options.T_max);
  initial_step();
}

std::vector<double> CosineAnnealingLR::get_lr() {
  if (is_initial_) return current_lr();
  const double t_max = static_cast<double>(options_.T_max);
  const double epoch = static_cast<double>(last_epoch_);
  const double eta_min = options_.eta_min;
  std::vector<double> rates = current_lr();
  if ((last_epoch_ - 1 - options_.T_max) % (2 * options_.T_max) == 0) {
    for (std::size_t i = 0; i < rates.size(); ++i) {
      rates[i] = rates[i] + (base_lrs_[i] - eta_min) * (1 - std::cos(pi / t_max)) / 2;
    }
    return rates;
  }
  return changed(std::move(rates), [&](double lr) {
    return (1 + std::cos(pi * epoch / t_max)) / (1 + std::cos(pi * (epoch - 1) / t_max)) * (lr - eta_min) +
           eta_min;
  });
}

std::vector<double> CosineAnnealingLR::first_lr() {
  const double eta_min = options_.eta_min;
  return changed(base_lrs_, [&](double base) { return eta_min + (base - eta_min) * (1 + 1) / 2; });
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(ScheduledGroups& optimizer,
                                                         const CosineAnnealingWarmRestartsOptions& options)
    : LRScheduler(optimizer), options_(options), t_i_(static_cast<double>(options.T_0)) {
  check_positive("CosineAnnealingWarmRestarts", "T_0", options.T_0);
  check_positive("CosineAnnealingWarmRestarts", "T_mult", options.T_mult);
  initial_step();
}

std::vector<double> CosineAnnealingWarmRestarts::get_lr() {
  const double eta_min = options_.eta_min;
  return changed(base_lrs_, [&](double base) {
    return eta_min + (base - eta_min) * (1 + std::cos(pi * t_cur_ / t_i_)) / 2;
  });
}

void CosineAnnealingWarmRestarts::step() {
  if (last_epoch_ < 0) return step(0.0);
  ++last_epoch_;
  t_cur_ += 1;
  if (t_cur_ >= t_i_) {
    t_cur_ = std::fmod(t_cur_, t_i_);
    t_i_ *= static_cast<double>(options_.T_mult);
  }
  set_lr(get_lr());
}

void CosineAnnealingWarmRestarts::step(double epoch) {
  if (!(epoch >= 0)) {
    refuse(fmt::format("CosineAnnealingWarmRestarts: the epoch is {}; it has to be at least 0", epoch));
  }
  const double t_0 = static_cast<double>(options_.T_0), t_mult = static_cast<double>(options_.T_mult);
  if (epoch < t_0) {
    t_i_ = t_0;
    t_cur_ = epoch;
  } else if (options_.T_mult == 1) {
    t_cur_ = std::fmod(epoch, t_0);
  } else {
    const double cycles = std::trunc(std::log(epoch / t_0 * (t_mult - 1) + 1) / std::log(t_mult));
    const double length = std::pow(t_mult, cycles);
    t_cur_ = epoch - t_0 * (length - 1) / (t_mult - 1);
    t_i_ = t_0 * length;
  }
  last_epoch_ = static_cast<std::int64_t>(std::floor(epoch));
  set_lr(get_lr());
}

SchedulerState CosineAnnealingWarmRestarts::state() const {
  SchedulerState state = LRScheduler::state();
  state.own = {{"T_i", int_or_double(t_i_)}, {"T_cur", int_or_double(t_cur_)}};
  return state;
}

void CosineAnnealingWarmRestarts::check_state(const SchedulerState& state) const {
  LRScheduler::check_state(state);
  for (const char* entry : {"T_i", "T_cur"}) own_value(state, name(), entry);
}

void CosineAnnealingWarmRestarts::load_state(const SchedulerState& state) {
  LRScheduler::load_state(state);
  t_i_ = own_value(state, name(), "T_i");
  t_cur_ = own_value(state, name(), "T_cur");
}

OneCycleLR::OneCycleLR(ScheduledGroups& optimizer, const OneCycleLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  check_positive("OneCycleLR", "total_steps", options.total_steps);
  if (!(options.pct_start >= 0 && options.pct_start <= 1)) {
    refuse(fmt::format("OneCycleLR: pct_start is {}; it has to be in [0, 1]", options.pct_start));
  }
  const double total = static_cast<double>(options.total_steps);
  const double rise = options.pct_start * total - 1;
  phases_.push_back({rise, "initial_lr", "max_lr", "max_momentum", "base_momentum"});
  if (options.three_phase) {
    phases_.push_back(
        {2 * options.pct_start * total - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"});
    phases_.push_back({total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"});
  } else {
    phases_.push_back({total - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"});
  }
  const std::size_t count = base_lrs_.size();
  const std::vector<double> max_lrs = per_group("OneCycleLR", "max_lr", options.max_lr, count);
  const std::vector<double> base_momentums =
      per_group("OneCycleLR", "base_momentum", options.base_momentum, count);
  const std::vector<double> max_momentums =
      per_group("OneCycleLR", "max_momentum", options.max_momentum, count);
  for (std::size_t i = 0; i < count && options.cycle_momentum; ++i) {
    if (groups_.momentum(i)) continue;
    refuse("OneCycleLR: this optimizer has neither momentum nor betas; set cycle_momentum to false");
  }
  for (std::size_t i = 0; i < count; ++i) {
    base_lrs_[i] = max_lrs[i] / options.div_factor;
    groups_.set_entry(i, "initial_lr", base_lrs_[i]);
    groups_.set_entry(i, "max_lr", max_lrs[i]);
    groups_.set_entry(i, "min_lr", base_lrs_[i] / options.final_div_factor);
    if (!options.cycle_momentum) continue;
    groups_.set_momentum(i, max_momentums[i]);
    groups_.set_entry(i, "max_momentum", max_momentums[i]);
    groups_.set_entry(i, "base_momentum", base_momentums[i]);
  }
  initial_step();
}

double OneCycleLR::anneal(double start, double end, double part) const {
  if (options_.anneal_strategy == AnnealStrategy::kLinear) return (end - start) * part + start;
  const double cos_out = std::cos(pi * part) + 1;
  return end + (start - end) / 2.0 * cos_out;
}

std::vector<double> OneCycleLR::get_lr() {
  if (last_epoch_ > options_.total_steps) {
    refuse(
        fmt::format("OneCycleLR: step {} of a schedule of {} steps; total_steps is the number of all steps",
                    last_epoch_, options_.total_steps));
  }
  const double step = static_cast<double>(last_epoch_);
  double start_step = 0;
  std::size_t index = 0;
  while (step > phases_[index].end_step && index + 1 < phases_.size()) start_step = phases_[index++].end_step;
  const Phase& phase = phases_[index];
  if (phase.end_step == start_step) {
    refuse(fmt::format("OneCycleLR: with {} steps and pct_start {} one phase of the cycle has no steps",
                       options_.total_steps, options_.pct_start));
  }
  const double part = (step - start_step) / (phase.end_step - start_step);
  const auto value = [&](std::size_t group, const char* start, const char* end) {
    return anneal(groups_.entry(group, start).value(), groups_.entry(group, end).value(), part);
  };
  std::vector<double> rates;
  for (std::size_t i = 0; i < base_lrs_.size(); ++i) {
    rates.push_back(value(i, phase.start_lr, phase.end_lr));
    if (options_.cycle_momentum) groups_.set_momentum(i, value(i, phase.start_momentum, phase.end_momentum));
  }
  return rates;
}

namespace {

void check_parts(const std::string& name, const ScheduledGroups* optimizer,
                 const std::vector<LRScheduler*>& schedulers) {
  if (schedulers.empty()) refuse(name + ": it got no scheduler; give at least one");
  for (std::size_t i = 0; i < schedulers.size(); ++i) {
    const ScheduledGroups* other = &schedulers[i]->optimizer();
    if (other == (optimizer != nullptr ? optimizer : &schedulers[0]->optimizer())) continue;
    refuse(fmt::format("{}: scheduler {} ({}) is of another optimizer; all have to be of the same", name, i,
                       schedulers[i]->name()));
  }
}

void check_part_count(const LRScheduler& scheduler, std::size_t given, std::size_t expected) {
  if (given == expected) return;
  refuse(fmt::format("{}: the state is of {} schedulers, this has {}", scheduler.name(), given, expected));
}

}  // namespace

SequentialLR::SequentialLR(ScheduledGroups& optimizer, std::vector<LRScheduler*> schedulers,
                           std::vector<std::int64_t> milestones)
    : LRScheduler(optimizer), schedulers_(std::move(schedulers)), milestones_(std::move(milestones)) {
  check_parts(name(), &optimizer, schedulers_);
  if (milestones_.size() + 1 != schedulers_.size()) {
    refuse(fmt::format("SequentialLR: {} schedulers need {} milestones, not {}", schedulers_.size(),
                       schedulers_.size() - 1, milestones_.size()));
  }
  if (!std::is_sorted(milestones_.begin(), milestones_.end())) {
    refuse(fmt::format("SequentialLR: the milestones {} do not rise", fmt::join(milestones_, ", ")));
  }
  for (std::size_t i = 1; i < schedulers_.size(); ++i) {
    if (schedulers_[i]->can_begin_later()) continue;
    refuse(fmt::format("SequentialLR: scheduler {} is a {}, which can only be the first", i,
                       schedulers_[i]->name()));
  }
  last_epoch_ = 0;
  set_lr(base_lrs_);
  undo();
  schedulers_[0]->initial_step();
  last_lr_ = schedulers_[0]->get_last_lr();
}

void SequentialLR::undo() {
  for (LRScheduler* scheduler : schedulers_) scheduler->undo();
}

void SequentialLR::step() {
  ++last_epoch_;
  const auto passed =
      std::upper_bound(milestones_.begin(), milestones_.end(), last_epoch_) - milestones_.begin();
  const auto index = static_cast<std::size_t>(passed);
  LRScheduler& scheduler = *schedulers_[index];
  if (index > 0 && milestones_[index - 1] == last_epoch_) {
    scheduler.last_epoch_ = 0;
    scheduler.set_lr(scheduler.first_lr());
  } else {
    scheduler.step();
  }
  last_lr_ = scheduler.get_last_lr();
}

SchedulerState SequentialLR::state() const {
  SchedulerState state = LRScheduler::state();
  for (const LRScheduler* scheduler : schedulers_) state.schedulers.push_back(scheduler->state());
  return state;
}

void SequentialLR::check_state(const SchedulerState& state) const {
  check_rates(name(), "_last_lr", state.last_lr, groups_.group_count());
  check_part_count(*this, state.schedulers.size(), schedulers_.size());
  for (std::size_t i = 0; i < schedulers_.size(); ++i) schedulers_[i]->check_state(state.schedulers[i]);
}

void SequentialLR::load_state(const SchedulerState& state) {
  check_state(state);
  last_epoch_ = state.last_epoch;
  last_lr_ = state.last_lr;
  for (std::size_t i = 0; i < schedulers_.size(); ++i) schedulers_[i]->load_state(state.schedulers[i]);
}

ChainedScheduler::ChainedScheduler(std::vector<LRScheduler*> schedulers)
    : LRScheduler((check_parts("ChainedScheduler", nullptr, schedulers), schedulers[0]->groups_)),
      schedulers_(std::move(schedulers)) {
  remember_lr();
}

void ChainedScheduler::undo() {
  for (LRScheduler* scheduler : schedulers_) scheduler->undo();
}

void ChainedScheduler::step() {
  for (LRScheduler* scheduler : schedulers_) scheduler->step();
  remember_lr();
}

SchedulerState ChainedScheduler::state() const {
  SchedulerState state = LRScheduler::state();
  for (const LRScheduler* scheduler : schedulers_) state.schedulers.push_back(scheduler->state());
  return state;
}

void ChainedScheduler::check_state(const SchedulerState& state) const {
  check_rates(name(), "_last_lr", state.last_lr, groups_.group_count());
  check_part_count(*this, state.schedulers.size(), schedulers_.size());
  for (std::size_t i = 0; i < schedulers_.size(); ++i) schedulers_[i]->check_state(state.schedulers[i]);
}

void ChainedScheduler::load_state(const SchedulerState& state) {
  check_state(state);
  last_lr_ = state.last_lr;
  for (std::size_t i = 0; i < schedulers_.size(); ++i) schedulers_[i]->load_state(state.schedulers[i]);
}

ReduceLROnPlateau::ReduceLROnPlateau(ScheduledGroups& optimizer, const ReduceLROnPlateauOptions& options)
    : groups_(optimizer), options_(options) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!(options.factor < 1)) {
    refuse(fmt::format("ReduceLROnPlateau: factor is {}; it has to be below 1", options.factor));
  }
  options_.min_lr = per_group("ReduceLROnPlateau", "min_lr", options.min_lr, optimizer.group_count());
  best_ = options.mode == ReduceLROnPlateauOptions::Mode::kMin ? kInfinity : -kInfinity;
  for (std::size_t i = 0; i < optimizer.group_count(); ++i) last_lr_.push_back(optimizer.learning_rate(i));
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const bool is_relative = options_.threshold_mode == ReduceLROnPlateauOptions::ThresholdMode::kRel;
  if (options_.mode == ReduceLROnPlateauOptions::Mode::kMin) {
    return metric < (is_relative ? best_ * (1.0 - options_.threshold) : best_ - options_.threshold);
  }
  return metric > (is_relative ? best_ * (options_.threshold + 1.0) : best_ + options_.threshold);
}

void ReduceLROnPlateau::step(double metric) {
  ++last_epoch_;
  if (is_better(metric)) {
    best_ = metric;
    num_bad_epochs_ = 0;
  } else {
    ++num_bad_epochs_;
  }
  if (cooldown_counter_ > 0) {
    --cooldown_counter_;
    num_bad_epochs_ = 0;
  }
  const bool reduces = num_bad_epochs_ > options_.patience;
  if (reduces) {
    cooldown_counter_ = options_.cooldown;
    num_bad_epochs_ = 0;
  }
  for (std::size_t i = 0; i < groups_.group_count(); ++i) {
    const double old_lr = groups_.learning_rate(i);
    const double new_lr = std::max(old_lr * options_.factor, options_.min_lr[i]);
    if (reduces && old_lr - new_lr > options_.eps) groups_.set_learning_rate(i, new_lr);
    last_lr_[i] = groups_.learning_rate(i);
  }
}

SchedulerState ReduceLROnPlateau::state() const {
  SchedulerState state;
  state.last_epoch = last_epoch_;
  state.last_lr = last_lr_;
  state.own = {{"best", best_}, {"cooldown_counter", cooldown_counter_}, {"num_bad_epochs", num_bad_epochs_}};
  return state;
}

void ReduceLROnPlateau::load_state(const SchedulerState& state) {
  const auto value = [&](const char* entry) { return own_value(state, "ReduceLROnPlateau", entry); };
  check_rates("ReduceLROnPlateau", "_last_lr", state.last_lr, groups_.group_count());
  const double best = value("best"), cooldown = value("cooldown_counter"), bad = value("num_bad_epochs");
  last_epoch_ = state.last_epoch;
  last_lr_ = state.last_lr;
  best_ = best;
  cooldown_counter_ = static_cast<std::int64_t>(cooldown);
  num_bad_epochs_ = static_cast<std::int64_t>(bad);
}

}  // namespace ddprun
