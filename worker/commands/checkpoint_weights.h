#pragma once

#include "worker/training/position.h"
#include <ddprun/pt_value.h>
#include <ddprun/trainer/model.h>
#include <ddprun/trainer/options.h>

#include <optional>
#include <string>

namespace ddprun::commands {

/// A file of weights.
struct Checkpoint {
  std::string path;
  PtValue content;
};

/// The newest checkpoint of the folder that can be read; each damaged one that is passed over is told on stderr.
/// None: there is no checkpoint. Errors  Exception kConfig: all are damaged.
std::optional<Checkpoint> newest_checkpoint(const std::string& folder);

/// The file that was wanted, or of a folder its newest checkpoint; nothing wanted: the newest of the job.
/// Errors  Exception kConfig, kCorrupt, kNotFound: there is none, or it cannot be read.
Checkpoint find_checkpoint(const Options& job, const std::string& wanted);

/// What a model has been given.
struct LoadedWeights {
  bool is_average = false;                     ///< of the weights, which the job keeps
  std::optional<training::Position> position;  ///< how far the job had come; none: a file of weights alone
};

/// The weights that the job is judged by: their average where the job keeps one, and the checkpoint has it.
/// Errors  Exception kConfig: they are of another model.
LoadedWeights load_judged_weights(Model& model, const Options& job, const Checkpoint& checkpoint);

/// "runs/a/checkpoints/step-00000007.pt (step 7), the average of the weights": for messages.
std::string describe(const Checkpoint& checkpoint, const LoadedWeights& weights);

}  // namespace ddprun::commands
