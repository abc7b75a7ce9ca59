#pragma once

#include "launcher/cli/options.h"
#include "rendezvous/base/log.h"

namespace ddprun::launcher {

/// Runs the job that `options` describe, or with --dry-run prints what it would be: checks everything, hands
/// the plan to the agent, and tells on stderr and in report.json why it failed. Returns the exit code of
/// ddprun.
int run_job(const Options& options, Logger& logger);

}  // namespace ddprun::launcher
