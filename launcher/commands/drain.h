#pragma once

#include "launcher/cli/command_line.h"

#include <string>

namespace ddprun::launcher {

/// `ddprun drain [JOB]`: asks a job on this host, as the_job() finds it, to checkpoint and end with 75: requeue
/// me. Says what it did.
/// Returns  0 when the job was asked; 64 or 69 with the reason on stderr.
int drain_local_job(const std::string& wanted);

/// Asks the coordinator to drain: workers get SIGTERM and their grace to checkpoint; then a named node leaves
/// an elastic job, or the job ends on all nodes with code 75: requeue me.
/// Returns  0 when the coordinator has taken it; 69 when it cannot be reached, 64 when it refuses. Reasons go to
///          stderr.
int drain_through_coordinator(const DrainCommand& options);

}  // namespace ddprun::launcher
