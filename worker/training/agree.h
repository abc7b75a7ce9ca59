#pragma once

#include "rendezvous/base/result.h"
#include <ddprun/group.h>

#include <optional>
#include <string>

namespace ddprun::training {

/// What all ranks do about an error that some of them met.
struct Verdict {
  Error error;           ///< of the lowest rank that has one
  int rank = 0;          ///< that rank
  bool is_mine = false;  ///< this rank has it: it tells the person
};

/// Every rank says whether it can go on; all learn the same answer, so that nobody is left waiting and one
/// rank speaks. nullopt: all can. Collective.
std::optional<Verdict> agree(const Group& group, const std::optional<Error>& mine);

}  // namespace ddprun::training
