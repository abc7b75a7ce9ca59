#pragma once

#include "rendezvous/base/ids.h"
#include "rendezvous/base/log.h"

#include <optional>
#include <string>

namespace ddprun::store {

/// `ddprun store --port N [--host ADDR] [--fd N]`, as parsed.
struct StoreCommandOptions {
  std::string host;                 ///< empty: every address
  Port port{29500};                 ///< 0: the kernel chooses
  std::optional<int> inherited_fd;  ///< --fd: an inherited listening socket; host and port are ignored then
};

/// Runs a store alone: prints its port as the first line of stdout, serves until SIGTERM or SIGINT.
/// Returns the exit code: 0 after a signal, 69 when the address cannot be had, 64 when the descriptor is no
/// listening socket; the reason is one sentence on stderr.
int run_store_command(const StoreCommandOptions& options, Logger& logger);

}  // namespace ddprun::store
