#pragma once

#include "worker/training/position.h"
#include <ddprun/checkpoint.h>

#include <string>
#include <vector>

namespace ddprun::training {

/// What a checkpoint of a job says besides weights and optimizer.
struct JobState {
  Position position;
  std::string model_type;
  std::string optimizer_type;
  std::string config;                         ///< the merged job file, as JSON text
  std::vector<std::string> generator_states;  ///< by rank
};

/// A checkpoint's content: a dict of "model" and "optimizer" in Python's layout, "epoch", "step", "sampler",
/// "rng", "metrics" and "ddprun", which says what wrote it.
PtDict make_checkpoint(const JobState& state, PtDict model, PtDict optimizer);

/// Errors  Exception kCorrupt or kConfig when `checkpoint` is not one of ddprun's.
JobState read_job_state(const PtDict& checkpoint);

}  // namespace ddprun::training
