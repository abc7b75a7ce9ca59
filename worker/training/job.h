#pragma once

#include "rendezvous/config/job_config.h"
#include <ddprun/drain.h>

#include <string>

namespace ddprun::training {

/// How a worker's job ended.
struct Outcome {
  int exit_code = 0;
  std::string error;   ///< one sentence, the same on every rank; empty: none
  bool speaks = true;  ///< this rank tells the person about `error`; the others know that one does
};

/// Trains as `job` says, in the world that the environment describes, and tells the person about it.
///
/// SIGTERM or SIGINT ends it between two steps with a checkpoint, and with 128 + signal. What is wrong with
/// data, checkpoint or output folder is an Outcome: every rank ends with the error and exit code of the
/// lowest rank that met one.
/// Errors  exceptions of the process group and of libtorch pass through.
Outcome run_job(const config::JobConfig& job, Drain& drain);

}  // namespace ddprun::training
