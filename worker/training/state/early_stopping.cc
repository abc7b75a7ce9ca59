#include "worker/training/state/early_stopping.h"

#include <cmath>

namespace ddprun::training {
namespace {

bool is_improvement(const Plateau& before, const EarlyStopping& options, double value) {
  if (!std::isfinite(value)) return false;
  if (!before.best) return true;
  return options.metric.better == Metric::Better::kHigher ? value > *before.best + options.min_delta
                                                          : value < *before.best - options.min_delta;
}

}  // namespace

Plateau after_evaluation(const Plateau& before, const EarlyStopping& options, double value,
                         std::int64_t epoch) {
  Plateau after = before.metric == options.metric.name ? before : Plateau{.metric = options.metric.name};
  if (is_improvement(after, options, value)) {
    after.best = value;
    after.best_epoch = epoch;
    after.evaluations = 0;
  } else {
    ++after.evaluations;
  }
  return after;
}

bool is_patience_over(const Plateau& plateau, std::int64_t patience) {
  return patience > 0 && plateau.evaluations >= patience;
}

}  // namespace ddprun::training
