// Python's expressions, operation by operation: an algebraic shortcut would change last bits, and so would
// x87 or contraction to fused multiply-add (CMakeLists.txt switches that off).
#include "worker/runtime/ddp/optim/scheduler_checks.h"
#include <ddprun/lr_scheduler.h>

#include <fmt/format.h>

#include <cmath>
#include <numbers>

namespace ddprun {

using runtime::check_positive;
using runtime::per_group;
using runtime::refuse;

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
  const double cos_out = std::cos(std::numbers::pi * part) + 1;
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

}  // namespace ddprun
