#include "worker/training/parts/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

namespace ddprun::training {
namespace {

Decay constant(const Options& /*options*/) {
  return [](const DecayPoint&) { return 1.0; };
}

Decay linear(const Options& options) {
  return [last = options.number("final_factor")](const DecayPoint& point) {
    return last + (1 - last) * (1 - point.part);
  };
}

Decay cosine(const Options& options) {
  return [last = options.number("final_factor")](const DecayPoint& point) {
    return last + (1 - last) * 0.5 * (1 + std::cos(std::numbers::pi * point.part));
  };
}

Decay step(const Options& options) {
  const auto every = static_cast<double>(options.integer("step_epochs"));
  return [every, gamma = options.number("gamma")](const DecayPoint& point) {
    return std::pow(gamma, std::floor(point.epochs / every));
  };
}

Decay multi_step(const Options& options) {
  return
      [milestones = options.numbers("milestones"), gamma = options.number("gamma")](const DecayPoint& point) {
        const auto passed = std::count_if(milestones.begin(), milestones.end(),
                                          [&](double milestone) { return point.epochs >= milestone; });
        return std::pow(gamma, static_cast<double>(passed));
      };
}

}  // namespace

void register_decays(DecayRegistry& decays) {
  decays.add("constant", "the same rate throughout", constant);
  decays.add("linear", "a straight line down to final_factor at the end of the job", linear);
  decays.add("cosine", "half a cosine down to final_factor at the end of the job", cosine);
  decays.add("step", "times gamma after every step_epochs", step);
  decays.add("multi_step", "times gamma at each of the milestones, in epochs", multi_step);
}

Schedule::Schedule(std::int64_t warmup_steps, Decay decay)
    : warmup_steps_(warmup_steps), decay_(std::move(decay)) {}

double Schedule::factor(const Progress& progress, const JobLength& length) {
  if (progress.step < warmup_steps_) {
    return static_cast<double>(progress.step + 1) / static_cast<double>(warmup_steps_ + 1);
  }
  if (!warmup_end_) warmup_end_ = warmup_steps_ > 0 ? progress : Progress{};
  const double begin = share_of(*warmup_end_, length);
  const double part = begin < 1 ? (share_of(progress, length) - begin) / (1 - begin) : 1;
  return decay_({.part = std::clamp(part, 0.0, 1.0), .epochs = progress.epochs});
}

}  // namespace ddprun::training
