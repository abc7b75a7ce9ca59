#pragma once

#include "launcher/agent/supervisor.h"
#include "launcher/output/output.h"
#include "launcher/plan/plan.h"
#include "rendezvous/membership/types.h"

#include <cstddef>
#include <vector>

namespace ddprun::launcher {

/// What a plan means for each part of the agent. Pure.
SupervisorOptions supervisor_options(const Plan& plan);
OutputOptions output_options(const Plan& plan);

/// What this node's workers, of which `alive` have theirs, and the launcher may still need of the process's
/// descriptors: who connects to our port does not get these.
std::size_t reserved_descriptors(const Plan& plan, int alive);

/// What a job needs of them in all: for the launcher, its workers, and each worker's connection to the store.
std::size_t needed_descriptors(const Plan& plan);

/// The signals the agent takes over: those that end the job, and those it needs or passes on.
std::vector<int> agent_signals(const Plan& plan);

}  // namespace ddprun::launcher
