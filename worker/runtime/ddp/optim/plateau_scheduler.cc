#include "worker/runtime/ddp/optim/scheduler_checks.h"
#include <ddprun/lr_scheduler.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace ddprun {

using runtime::check_rates;
using runtime::own_value;
using runtime::per_group;
using runtime::refuse;

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
