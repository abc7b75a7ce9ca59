#pragma once

#include "launcher/agent/supervisor.h"
#include "launcher/plan.h"
#include "launcher/process/output.h"

#include <cstddef>
#include <vector>

namespace ddprun::launcher {

/// What a plan means for each part of the agent. Pure.
SupervisorOptions supervisor_options(const Plan& plan);
OutputOptions output_options(const Plan& plan);

/// What this node's workers, and the launcher for itself, may need of the process's descriptors at once: who
/// connects to our port does not get these.
std::size_t reserved_descriptors(const Plan& plan);

/// The signals the agent takes over: those that end the job, and those it needs or passes on.
std::vector<int> agent_signals(const Plan& plan);

}  // namespace ddprun::launcher
