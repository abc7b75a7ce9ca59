#pragma once

#include "launcher/report/findings.h"
#include "launcher/why/facts/facts.h"

#include <map>

namespace ddprun::launcher::why {

/// By how much each rank comes after the first, on average, by the entries that all have. Pure.
std::map<int, double> lateness_of(const JobPicture& picture);

/// From the entries that all ranks have. Clocks of several hosts are taken to agree. Pure.
Straggler find_straggler(const JobPicture& picture);

}  // namespace ddprun::launcher::why
