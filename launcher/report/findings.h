#pragma once

#include <string>
#include <vector>

namespace ddprun::launcher {

/// Ranks that do not get on, as this node's watch judges.
struct Hang {
  bool ends = false;  ///< --hang-timeout is over, and those of the guilty that are here are killed; all that are, if none
  std::vector<int> guilty;
  bool have_ended = false;  ///< the guilty: the others wait for them
  std::string reason;
  std::string page;  ///< what `ddprun why` says
};

/// A rank of this node that is last at collectives most of the time.
struct Straggler {
  int rank = -1;      ///< -1: none
  double late_s = 0;  ///< behind the first, on average
  double share = 0;   ///< of the time from one collective to the next
};

}  // namespace ddprun::launcher
