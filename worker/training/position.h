#pragma once

#include <cstdint>
#include <optional>

namespace ddprun::training {

/// A mean over samples that is exact however the samples were spread over ranks and batches.
struct LossSum {
  double loss = 0;  ///< summed over samples
  std::int64_t samples = 0;

  [[nodiscard]] double mean() const { return samples > 0 ? loss / static_cast<double>(samples) : 0; }
};

/// What an evaluation found, over all ranks.
struct Evaluation {
  LossSum loss;
  std::int64_t correct = 0;

  [[nodiscard]] double accuracy() const {
    return loss.samples > 0 ? static_cast<double>(correct) / static_cast<double>(loss.samples) : 0;
  }
};

/// How far a job has come: between two steps, the same on every rank.
struct Position {
  std::int64_t epoch = 0;                ///< complete epochs
  std::int64_t step = 0;                 ///< optimizer steps since the beginning
  std::int64_t samples_seen = 0;         ///< of the current epoch, by all ranks together
  LossSum epoch_loss;                    ///< of the current epoch so far, over all ranks
  std::optional<Evaluation> evaluation;  ///< the last one
};

}  // namespace ddprun::training
