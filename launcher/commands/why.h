#pragma once

#include <string>

namespace ddprun::launcher {

/// `ddprun why`: looks at one job of this user on this host, of which `wanted` is the tag, the run id or the launcher's
/// pid (empty: the only one), judges it and prints the page, or JSON; the exit code. Blocks for the looks.
int run_why(const std::string& wanted, bool as_json);

}  // namespace ddprun::launcher
