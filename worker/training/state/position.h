#pragma once

#include "worker/training/state/early_stopping.h"
#include "worker/training/state/saved_part.h"
#include <ddprun/pt_value.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::training {

/// A mean over items that is exact however the items were spread over ranks and batches.
struct LossSum {
  double loss = 0;  ///< summed over items
  std::int64_t items = 0;

  /// No number where nothing was learned from.
  [[nodiscard]] double mean() const { return items > 0 ? loss / static_cast<double>(items) : std::nan(""); }
};

/// What an evaluation found, over all ranks: each of the task's metrics, summed over the items.
struct Evaluation {
  std::vector<std::pair<std::string, double>> sums;
  std::int64_t items = 0;

  /// The mean of metric `index`, as the task orders them.
  [[nodiscard]] double mean(std::size_t index) const {
    return items > 0 ? sums.at(index).second / static_cast<double>(items) : 0;
  }
};

/// The world that a job runs in, as far as it changes what a step is.
struct World {
  std::int64_t ranks = 1;
  std::int64_t global_batch = 1;  ///< samples of one optimizer step, over all ranks

  bool operator==(const World&) const = default;
};

/// How far a job has come: between two steps, the same on every rank.
struct Position {
  std::int64_t epoch = 0;                ///< complete epochs
  std::int64_t step = 0;                 ///< optimizer steps since the beginning
  std::int64_t samples_seen = 0;         ///< of the current epoch, by all ranks together
  LossSum epoch_loss;                    ///< of the current epoch so far, over all ranks
  std::optional<Evaluation> evaluation;  ///< the last one
  /// Then by /evaluate's data, under its names.
  std::vector<std::pair<std::string, Evaluation>> more_evaluations{};
  Plateau plateau;                 ///< of what /early_stopping looks at
  std::int64_t rollbacks = 0;      ///< times that the job has gone back
  World world;                     ///< in which the last step was made
  std::int64_t train_samples = 0;  ///< of the data that it was made with; 0: not known
};

/// How long a job is, in a world that may change.
struct JobLength {
  std::int64_t epochs = 1;
  std::int64_t max_steps = 0;  ///< 0: no limit
  std::int64_t patience = 0;   ///< evaluations in a row that bring nothing better; 0: no limit
  /// What an epoch has seen when it is over; samples that ranks repeat to have equal shares do not count, since
  /// another world repeats others.
  std::int64_t epoch_samples = 1;
};

[[nodiscard]] bool is_complete(const Position& position, const JobLength& length);

/// True when evaluations that brought nothing better have ended the job before its time.
[[nodiscard]] bool is_stopped_early(const Position& position, const JobLength& length);

/// What the last evaluation found for `metric` ("accuracy", "name/accuracy"); nothing where it has no such one.
[[nodiscard]] std::optional<double> last_value(const Position& position, const std::string& metric);

/// True when nothing of the current epoch is left, though its end (evaluation, checkpoint) may be.
[[nodiscard]] bool is_epoch_over(const Position& position, const JobLength& length);

/// How far a job is, as schedules see it: what has been learned, not the steps that one world makes of it.
struct Progress {
  std::int64_t step = 0;
  double epochs = 0;  ///< with the part of the current one
};

[[nodiscard]] Progress progress_of(const Position& position, const JobLength& length);

/// Of the whole job, 0…1.
[[nodiscard]] double share_of(const Progress& progress, const JobLength& length);

/// The samples, of all ranks, that are still to be learned from.
[[nodiscard]] std::int64_t samples_left(const Position& position, const JobLength& length);

PtDict to_dict(const Position& position);
/// Errors  Exception kCorrupt for what is missing or of another type.
Position read_position(const PtDict& dict);

/// "position" of a checkpoint, which none may lack; `position` outlives it.
std::unique_ptr<SavedPart> position_part(Position& position);

}  // namespace ddprun::training
