#pragma once

#include "launcher/report/findings.h"
#include "launcher/why/facts/facts.h"

#include <map>

namespace ddprun::launcher::why {

/// How long a wait, or a silence, is no hang yet where the longest time from one collective to the next was this. Pure.
double longest_usual_wait(double longest_distance_s);

/// By how much each rank comes after the first, on average, by the entries that all have; of several nodes nothing.
/// Pure.
std::map<int, double> lateness_of(const JobPicture& picture);

/// From the entries that all ranks have. Clocks of several hosts are not compared: then of those that all ranks of a
/// host have, the latest of all hosts. Pure.
Straggler find_straggler(const JobPicture& picture);

}  // namespace ddprun::launcher::why
