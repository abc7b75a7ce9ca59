#pragma once

#include "rendezvous/config/job_commands.h"
#include "worker/models/weights.h"
#include "worker/training/state/position.h"
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
/// None: there is no checkpoint.
/// Errors  Exception kConfig: all are damaged.
std::optional<Checkpoint> newest_checkpoint(const std::string& folder);

/// The file that --checkpoint names, or of a folder its newest checkpoint; without it: the newest of the job.
/// Errors  Exception kUsage, kConfig, kCorrupt, kNotFound: there is none, or it cannot be read.
Checkpoint find_checkpoint(const Options& job, const config::JobCommandLine& line);

/// What a model has been given.
struct LoadedWeights {
  bool is_average = false;                     ///< of the weights, which the job keeps
  std::optional<training::Position> position;  ///< how far the job had come; none: a file of weights alone
};

/// The line's --weights-of.
/// Errors  Exception kUsage: it is another word.
models::WeightsOf read_weights_of(const config::JobCommandLine& line);

/// Those weights of the checkpoint; kAuto: what the job was judged by, their average where it kept one.
/// Errors  Exception kConfig: they are of another model, or there is no average.
LoadedWeights load_chosen_weights(Model& model, const Options& job, const Checkpoint& checkpoint,
                                  models::WeightsOf which);

/// Errors  Exception kConfig: the job's data does not mean what that of the checkpoint did (training::check_meaning).
void check_data(const DataShape& data, const Checkpoint& checkpoint);

/// "runs/a/checkpoints/step-00000007.pt (step 7), the average of the weights": for messages.
std::string describe(const Checkpoint& checkpoint, const LoadedWeights& weights);

}  // namespace ddprun::commands
