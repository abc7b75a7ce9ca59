#pragma once

#include <vector>

namespace ddprun::launcher {

/// The first words of a fork of the launcher that runs on beside it: a session of its own, `name` as its short name,
/// /dev/null for the standard streams, no descriptor of the launcher's but those of `kept`, and no folder that somebody
/// might want to unmount. What becomes of signals and of the launcher's end is for the caller to say.
void leave_launcher(const char* name, std::vector<int> kept);

}  // namespace ddprun::launcher
