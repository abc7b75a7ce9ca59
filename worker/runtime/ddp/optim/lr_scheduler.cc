#include "worker/runtime/ddp/optim/scheduler_checks.h"
#include <ddprun/lr_scheduler.h>

namespace ddprun {

using runtime::check_rates;

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

}  // namespace ddprun
