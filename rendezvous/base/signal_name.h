#pragma once

#include <string>

namespace ddprun {

/// "SIGTERM", or "signal 77" for one without a name.
std::string signal_name(int signal);

}  // namespace ddprun
