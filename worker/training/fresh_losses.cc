#include "worker/training/fresh_losses.h"

#include "worker/training/ranks/rank_sums.h"
#include <ddprun/exception.h>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

namespace ddprun::training {
namespace {

/// So many steps left out one after the other, and nothing is learned any more.
constexpr std::int64_t kMostBarrenSteps = 50;

// The entries of a state.
constexpr const char* kLosses = "losses";
constexpr const char* kSteps = "steps";
constexpr const char* kBarren = "barren_steps";

// Of the last step, from 1: at the end of an epoch the position is already between it and the next one.
std::int64_t epoch_number(const Position& position) {
  return position.epoch + (position.samples_seen > 0 ? 1 : 0);
}

}  // namespace

const char* const kHowToGoOn =
    "a smaller /optimizer/learning_rate, a bound on /train/clip_grad_norm, or a look at these samples may "
    "help; "
    "/train/non_finite=skip leaves such steps out";

FreshLosses::FreshLosses(const RankBlock& block, at::Device device)
    : block_(block),
      losses_(at::zeros({static_cast<std::int64_t>(block.count), 2},
                        at::TensorOptions(device).dtype(at::kDouble))) {}

void FreshLosses::add(const at::Tensor& loss_and_items) {
  losses_.add_(loss_and_items);
  ++steps_;
}

std::vector<LossSum> FreshLosses::by_turn() const {
  const at::Tensor table = losses_.cpu();
  const double* next = table.const_data_ptr<double>();
  std::vector<LossSum> sums;
  for (std::size_t turn = 0; turn < block_.count; ++turn, next += 2)
    sums.push_back({next[0], std::llround(next[1])});
  return sums;
}

FreshLosses::Sum FreshLosses::collect(const Group& group, const Position& position, bool is_broken) {
  std::vector<std::vector<double>> rows;
  for (const LossSum& mine : by_turn())
    rows.push_back({mine.loss, static_cast<double>(mine.items), is_broken ? 1.0 : 0.0});
  const std::vector<double> sums = sum_over_job(group, block_, rows);
  const LossSum all{sums[0], std::llround(sums[1])};
  const std::int64_t first = position.step - steps_ + 1;
  barren_ = all.items > 0 ? 0 : barren_ + steps_;
  steps_ = 0;
  losses_.zero_();
  if (barren_ >= kMostBarrenSteps) refuse_barren_steps(position);
  if (!std::isfinite(all.loss)) {
    // A GPU's losses are looked at here, and the CPU's after each forward.
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("the loss is not a finite number in one of the steps {} to {} of epoch {}; {}; "
                    "/train/non_finite=rollback looks after each step, and names rank and samples",
                    first, position.step, epoch_number(position), kHowToGoOn));
  }
  return {.loss = all, .is_broken = sums[2] > 0};
}

void FreshLosses::forget() {
  losses_.zero_();
  steps_ = barren_ = 0;
}

void FreshLosses::refuse_barren_steps(const Position& position) const {
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("the last {} steps, up to step {} of epoch {}, were all left out, because their "
                  "losses were no finite numbers (/train/non_finite=skip); a smaller "
                  "/optimizer/learning_rate or a bound on /train/clip_grad_norm may help",
                  barren_, position.step, epoch_number(position)));
}

PtDict FreshLosses::state() const {
  PtDict state;
  state.set(kLosses, losses_);
  state.set(kSteps, steps_);
  state.set(kBarren, barren_);
  return state;
}

void FreshLosses::load(const PtDict& state) {
  const at::Tensor& losses = state.at(kLosses).as_tensor();
  if (losses.sizes() != losses_.sizes() || losses.scalar_type() != losses_.scalar_type())
    throw Exception(ErrorCode::kCorrupt, "its losses are of another job");
  losses_.copy_(losses);
  steps_ = state.at(kSteps).as_int();
  barren_ = state.at(kBarren).as_int();
}

}  // namespace ddprun::training
