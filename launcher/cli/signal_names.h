#pragma once

#include "rendezvous/base/result.h"

#include <string_view>

namespace ddprun::launcher {

/// The number of "SIGTERM" or "TERM" (any case). kUsage for a name that is none, or of a signal that no
/// process can handle (SIGKILL, SIGSTOP).
Result<int> parse_signal(std::string_view name);

}  // namespace ddprun::launcher
