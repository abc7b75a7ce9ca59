#pragma once

#include "launcher/cli/command_line.h"

namespace ddprun::launcher {

/// Runs a store alone: prints its port as the first line of stdout, serves until SIGTERM or SIGINT.
/// Returns the exit code: 0 after a signal, 69 when the address cannot be had, 64 when the descriptor is no
/// listening socket; the reason is one sentence on stderr.
int serve_store(const StoreCommand& options);

}  // namespace ddprun::launcher
