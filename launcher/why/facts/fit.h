#pragma once

#include "launcher/why/facts/facts.h"

#include <cstddef>

namespace ddprun::launcher::why {

/// The facts in at most so many bytes of text: what tells least is left out first, and said to be. Of its threads the
/// main one, the busiest and one of NCCL's stay the longest. Of what still does
/// not fit only who it is remains. Pure.
RankFacts fit(RankFacts facts, std::size_t most_bytes);

}  // namespace ddprun::launcher::why
