#pragma once

#include "launcher/watch/sample.h"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::launcher::watch {

struct WatchedJob {
  JobSample now;
  std::optional<JobSample> before;
};

/// The page of `ddprun ps --watch`: each job, and each of its ranks on a line of at most `columns` characters (0: as
/// long as it is). Pure.
std::string render_screen(const std::vector<WatchedJob>& jobs, std::size_t columns);

}  // namespace ddprun::launcher::watch
