#pragma once

#include <string>

namespace ddprun {

/// Tells this boot of this host from any other, of any host; empty: /proc does not say.
std::string boot_id();

}  // namespace ddprun
