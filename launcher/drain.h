#pragma once

#include "launcher/ps.h"
#include "rendezvous/base/result.h"

#include <sys/types.h>

#include <string>
#include <vector>

namespace ddprun::launcher {

/// What `ddprun drain` sends along with SIGTERM, so that the launcher knows that the whole job is meant:
/// "drn".
inline constexpr int kDrainValue = 0x64726e;

/// The launcher of the job that `wanted` names: a pid, a job's tag as `ddprun ps` shows it, its --rdzv-id, or
/// nothing where only one job runs. Pure.
/// Errors  kNotFound: there is no such job; kUsage: there are several. The message lists them.
Result<pid_t> launcher_to_drain(const std::vector<JobFacts>& jobs, const std::string& wanted);

/// `ddprun drain [JOB]`: asks a job on this host to checkpoint and end with 75: requeue me. Says what it did.
/// Returns  0 when the job was asked; 64 or 69 with the reason on stderr.
int drain_local_job(const std::string& wanted);

}  // namespace ddprun::launcher
