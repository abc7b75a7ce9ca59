#pragma once

#include "launcher/cli/command_line.h"
#include "rendezvous/base/log.h"

namespace ddprun::launcher {

/// Runs a coordinator, with the workers' store, on a machine that need not be a node: it survives every node.
/// Prints its port as the first line of stdout, and ends when the job has ended and the nodes have left.
/// Returns  the job's exit code; 128 + the signal after SIGTERM, SIGINT, SIGHUP (unless nohup is before it) or
///          SIGQUIT, which end the job on all nodes (the second one at once, the third without waiting for the
///          console); 69 when the address cannot be had, 64 when the secret cannot be read. Reasons go to
///          stderr.
int coordinate(const CoordinatorCommand& options, spdlog::level::level_enum level);

}  // namespace ddprun::launcher
