#pragma once

#include <set>
#include <string>
#include <vector>

namespace ddprun::commands {

/// What a smoke test finds around it, and may not change.

/// The environment less what is another job's or would change what is tried; temporary files go to `temporary`.
std::vector<std::string> clean_environment(const std::string& temporary);

/// PyTorch's segments of shared memory, /dev/shm/torch_<pid>_…, whose makers are gone.
std::set<std::string> orphaned_segments();

bool has_gpu();

}  // namespace ddprun::commands
