#pragma once

#include <string>

namespace ddprun {

/// What this machine calls itself, for people and logs.
std::string host_name();

}  // namespace ddprun
