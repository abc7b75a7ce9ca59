#pragma once

#include "launcher/why/facts.h"

#include <map>

namespace ddprun::launcher::why {

/// A rank that is last at collectives most of the time.
struct Straggler {
  int rank = -1;      ///< -1: none
  double late_s = 0;  ///< behind the first, on average
  double share = 0;   ///< of the time from one collective to the next
};

/// By how much each rank comes after the first, on average, by the entries that all have. Pure.
std::map<int, double> lateness_of(const JobPicture& picture);

/// From the entries that all ranks have. Clocks of several hosts are taken to agree. Pure.
Straggler find_straggler(const JobPicture& picture);

}  // namespace ddprun::launcher::why
