#pragma once

#include "rendezvous/base/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// The number of "SIGTERM" or "TERM" (any case). kUsage for a name that is none, or of a signal that no
/// process can handle (SIGKILL, SIGSTOP).
Result<int> parse_signal(std::string_view name);

/// "SIGTERM,SIGINT".
std::string join_signal_names(const std::vector<int>& signals, std::string_view separator);

}  // namespace ddprun::launcher
