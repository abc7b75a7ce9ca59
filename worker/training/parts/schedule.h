#pragma once

#include "worker/training/state/position.h"
#include <ddprun/trainer/registry.h>

#include <functional>
#include <optional>

namespace ddprun::training {

/// Where a job is after its warm-up.
struct DecayPoint {
  double part = 0;    ///< of what follows the warm-up, 0…1
  double epochs = 0;  ///< since the beginning of the job
};

/// The factor on the base learning rate after the warm-up.
using Decay = std::function<double(const DecayPoint& point)>;
using DecayFactory = std::function<Decay(const Options& options)>;
using DecayRegistry = Registry<DecayFactory>;

/// constant, linear, cosine, step, multi_step.
void register_decays(DecayRegistry& decays);

/// The learning rate over a job, by progress and not by steps: a job that goes on in another world, where an
/// epoch has other steps, goes on with the rate that it had.
///
/// Warm-up is so many optimizer steps, rising linearly, and reaches 1 with the step after them. How far the job
/// was then is remembered, and saved with the job: the rest is the decay's, also of a job that is made longer.
class Schedule {
 public:
  Schedule(std::int64_t warmup_steps, Decay decay);

  /// The factor for the step that is to be made at `progress`. Called with growing progress.
  double factor(const Progress& progress, const JobLength& length);

  [[nodiscard]] const std::optional<Progress>& warmup_end() const { return warmup_end_; }
  /// What `warmup_end` gave when the job was saved.
  void set_warmup_end(const std::optional<Progress>& end) { warmup_end_ = end; }

 private:
  std::int64_t warmup_steps_;
  Decay decay_;
  std::optional<Progress> warmup_end_;
};

}  // namespace ddprun::training
