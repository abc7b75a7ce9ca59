#pragma once

#include "launcher/cli/command_line.h"
#include "launcher/report/running_jobs.h"
#include "rendezvous/base/result.h"

#include <sys/types.h>

#include <string>
#include <vector>

namespace ddprun::launcher {

/// The launcher of the job that `wanted` names: a pid, a job's tag as `ddprun ps` shows it, its --rdzv-id, or
/// nothing where only one job runs. Pure.
/// Errors  kUnavailable: there is no such job; kUsage: there are several. The message lists them.
Result<pid_t> launcher_to_drain(const std::vector<JobFacts>& jobs, const std::string& wanted);

/// `ddprun drain [JOB]`: asks a job on this host to checkpoint and end with 75: requeue me. Says what it did.
/// Returns  0 when the job was asked; 64 or 69 with the reason on stderr.
int drain_local_job(const std::string& wanted);

/// Asks the coordinator to drain: workers get SIGTERM and their grace to checkpoint; then a named node leaves
/// an elastic job, or the job ends on all nodes with code 75: requeue me.
/// Returns  0 when the coordinator has taken it; 69 when it cannot be reached, 64 when it refuses. Reasons go to
///          stderr.
int drain_through_coordinator(const DrainCommand& options);

}  // namespace ddprun::launcher
