#pragma once

#include "rendezvous/config/job_config.h"
#include <ddprun/drain.h>

#include <string>

namespace ddprun::training {

/// How a worker's job ended.
struct Outcome {
  int exit_code = 0;
  std::string error;      ///< one sentence; empty: none
  bool speaks = true;     ///< this rank tells the person about `error`; the others know that one does
  bool is_filed = false;  ///< its error file is written, and says when it failed
};

/// Trains as `job` says, in the world that the environment describes, and tells the person about it.
///
/// SIGTERM or SIGINT ends it between two steps with a checkpoint, and with 128 + signal. What is wrong with
/// data, checkpoint or output folder is an Outcome: of the ranks that met it with its exit code, of the others
/// with that of a lost peer. The lowest that met it speaks.
/// Errors  exceptions of the process group and of libtorch pass through.
Outcome run_job(const config::JobConfig& job, Drain& drain);

}  // namespace ddprun::training
