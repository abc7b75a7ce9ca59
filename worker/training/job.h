#pragma once

#include "rendezvous/config/job_config.h"
#include "worker/training/stop_request.h"

namespace ddprun::training {

/// Trains as `job` says, in the world that the environment describes, and tells the person about it. Returns
/// the exit code.
///
/// SIGTERM ends it between two steps with a checkpoint, and with 128 + SIGTERM. What is wrong with data,
/// checkpoint or output folder is said by one rank in one sentence, and every rank ends with that error's
/// exit code. Errors: exceptions of the process group and of libtorch pass through.
int run_job(const config::JobConfig& job, StopRequest& stop);

}  // namespace ddprun::training
