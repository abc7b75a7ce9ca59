// Half a cosine, once or again and again, by Python's expressions, operation by operation: an algebraic
// shortcut would change last bits, and so would x87 or contraction to fused multiply-add (CMakeLists.txt
// switches that off).
#include "worker/runtime/ddp/optim/scheduler_checks.h"
#include <ddprun/lr_scheduler.h>

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <utility>

namespace ddprun {
namespace {

using runtime::changed;
using runtime::check_positive;
using runtime::own_value;
using runtime::refuse;
using std::numbers::pi;

// As Python would have it: what counts whole epochs is an int.
std::variant<std::int64_t, double> int_or_double(double value) {
  if (value == std::floor(value) && std::abs(value) < 0x1p53) return static_cast<std::int64_t>(value);
  return value;
}

}  // namespace

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

}  // namespace ddprun
