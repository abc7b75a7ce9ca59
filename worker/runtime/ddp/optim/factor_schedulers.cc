// Schedulers that multiply a rate, by Python's expressions, operation by operation: an algebraic shortcut
// would change last bits, and so would x87 or contraction to fused multiply-add (CMakeLists.txt switches that
// off).
#include "worker/runtime/ddp/optim/scheduler_checks.h"
#include <ddprun/lr_scheduler.h>

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace ddprun {
namespace {

using runtime::changed;
using runtime::check_positive;
using runtime::refuse;

template <class Lambda>
std::vector<Lambda> lambdas_per_group(const char* name, std::vector<Lambda> lambdas, std::size_t groups) {
  if (lambdas.size() != groups) {
    refuse(fmt::format("{}: it got {} functions for {} parameter groups; give one per group", name,
                       lambdas.size(), groups));
  }
  return lambdas;
}

}  // namespace

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

}  // namespace ddprun
