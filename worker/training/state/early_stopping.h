#pragma once

#include <ddprun/trainer/task.h>

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::training {

/// When a job ends before its epochs do: after `patience` evaluations in a row whose metric was not better, by more
/// than `min_delta`, than the best one before.
struct EarlyStopping {
  std::int64_t patience = 0;  ///< 0: never
  Metric metric;
  double min_delta = 0;
};

/// How long evaluations have brought nothing better.
struct Plateau {
  std::string metric;  ///< empty: there has been no evaluation
  std::optional<double> best;
  std::int64_t best_epoch = 0;   ///< complete epochs when it was found
  std::int64_t evaluations = 0;  ///< since then
};

/// After an evaluation that found `value`. What is no finite number is never better.
[[nodiscard]] Plateau after_evaluation(const Plateau& before, const EarlyStopping& options, double value,
                                       std::int64_t epoch);

/// True when a job of such patience has come to its end.
[[nodiscard]] bool is_patience_over(const Plateau& plateau, std::int64_t patience);

}  // namespace ddprun::training
