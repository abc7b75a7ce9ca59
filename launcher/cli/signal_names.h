#pragma once

#include "rendezvous/base/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// The number of "SIGTERM" or "TERM" (any case). kUsage for a name that is none, or of a signal that no
/// process can handle (SIGKILL, SIGSTOP).
Result<int> parse_signal(std::string_view name);

/// The numbers of "TERM, SIGUSR1".
Result<std::vector<int>> parse_signals(std::string_view text);

/// "SIGTERM,SIGINT".
std::string join_signal_names(const std::vector<int>& signals, std::string_view separator);

}  // namespace ddprun::launcher
