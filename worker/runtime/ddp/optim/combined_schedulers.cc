#include "worker/runtime/ddp/optim/scheduler_checks.h"
#include <ddprun/lr_scheduler.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

using runtime::check_rates;
using runtime::refuse;

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

}  // namespace

CombinedScheduler::CombinedScheduler(ScheduledGroups& groups, std::vector<LRScheduler*> schedulers)
    : LRScheduler(groups), schedulers_(std::move(schedulers)) {}

void CombinedScheduler::undo() {
  for (LRScheduler* scheduler : schedulers_) scheduler->undo();
}

SchedulerState CombinedScheduler::state() const {
  SchedulerState state = LRScheduler::state();
  for (const LRScheduler* scheduler : schedulers_) state.schedulers.push_back(scheduler->state());
  return state;
}

void CombinedScheduler::check_state(const SchedulerState& state) const {
  check_rates(name(), "_last_lr", state.last_lr, groups_.group_count());
  if (state.schedulers.size() != schedulers_.size()) {
    refuse(fmt::format("{}: the state is of {} schedulers, this has {}", name(), state.schedulers.size(),
                       schedulers_.size()));
  }
  for (std::size_t i = 0; i < schedulers_.size(); ++i) schedulers_[i]->check_state(state.schedulers[i]);
}

void CombinedScheduler::load_state(const SchedulerState& state) {
  check_state(state);
  last_lr_ = state.last_lr;
  for (std::size_t i = 0; i < schedulers_.size(); ++i) schedulers_[i]->load_state(state.schedulers[i]);
}

SequentialLR::SequentialLR(ScheduledGroups& optimizer, std::vector<LRScheduler*> schedulers,
                           std::vector<std::int64_t> milestones)
    : CombinedScheduler(optimizer, std::move(schedulers)), milestones_(std::move(milestones)) {
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

void SequentialLR::load_state(const SchedulerState& state) {
  CombinedScheduler::load_state(state);
  last_epoch_ = state.last_epoch;
}

ChainedScheduler::ChainedScheduler(std::vector<LRScheduler*> schedulers)
    : CombinedScheduler((check_parts("ChainedScheduler", nullptr, schedulers), schedulers[0]->groups_),
                        schedulers) {
  remember_lr();
}

void ChainedScheduler::step() {
  for (LRScheduler* scheduler : schedulers_) scheduler->step();
  remember_lr();
}

}  // namespace ddprun
