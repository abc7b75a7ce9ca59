#pragma once

#include "launcher/watch/sample.h"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::launcher::watch {

struct WatchedJob {
  JobSample now;
  std::optional<JobSample> before;
  std::vector<NodeSamples> others{};
  std::vector<std::string> unseen{};  ///< why ranks of other nodes are missing or old, in sentences
};

/// Of a terminal; 0: as much as there is.
struct ScreenSize {
  std::size_t columns = 0;
  std::size_t rows = 0;
};

/// The page of `ddprun ps --watch`: each job, and each of its ranks on a line, with its host where there are several
/// nodes. Where all lines are more than a screen has, ranks are left out at the end of each job, and counted. How late
/// a rank is counts among those of its node: clocks of several hosts are not compared. Pure.
std::string render_screen(const std::vector<WatchedJob>& jobs, ScreenSize size);

}  // namespace ddprun::launcher::watch
