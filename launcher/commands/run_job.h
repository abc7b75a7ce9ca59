#pragma once

#include "launcher/cli/options.h"
#include "rendezvous/base/log.h"

#include <optional>
#include <string>

namespace ddprun::launcher {

/// Runs the job that `options` describe, or with --dry-run prints what it would be: checks everything, hands
/// the plan to the agent, and tells on stderr and in report.json why it failed. Returns the exit code of
/// ddprun. `job_secret` is DDPRUN_SECRET.
int run_job(const Options& options, std::optional<std::string> job_secret, Logger& logger);

}  // namespace ddprun::launcher
