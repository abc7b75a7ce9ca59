#pragma once

#include "worker/training/ranks/rank_block.h"
#include "worker/training/state/generators.h"
#include "worker/training/state/saved_part.h"
#include <ddprun/init.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace ddprun::training {

/// "rng" of a checkpoint: the states of the random generators of all ranks. On another kind of device, too, they begin
/// anew, from the seeds that `fresh_seed` gives for a rank of the job. `context` and `generators` outlive it.
std::unique_ptr<SavedPart> generators_part(const Context& context, const RankBlock& block,
                                           Generators& generators,
                                           std::function<std::uint64_t(int rank)> fresh_seed);

}  // namespace ddprun::training
