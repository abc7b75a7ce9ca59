#pragma once

#include "launcher/why/facts/facts.h"

#include <string>

namespace ddprun::launcher::why {

/// "all_reduce #1294 (float32, 4 MiB)"; in another group than the world, "barrier #3 of group \"1\"". Pure.
std::string describe(const Collective& collective);

/// The same without number and group: what has to be equal on all ranks.
std::string kind_of(const Collective& collective);

/// Whether that is the group of all ranks.
bool is_world(const std::string& group);

/// Whether two ranks may do these in the same place of the same group. Sizes count only where they have to be equal.
bool agree(const Collective& one, const Collective& other);

}  // namespace ddprun::launcher::why
