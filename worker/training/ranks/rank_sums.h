#pragma once

#include "worker/training/ranks/rank_block.h"
#include <ddprun/group.h>

#include <span>
#include <vector>

namespace ddprun::training {

/// The sums over the ranks of a job of what each has counted, `rows` of those of this process: the same on every
/// process, to the last bit also for every number of processes that virtual ranks live on. Collective.
std::vector<double> sum_over_job(const Group& group, const RankBlock& block,
                                 const std::vector<std::vector<double>>& rows);

/// Of each process, by rank: its `seconds` by activity, then those of `whole` that are of none. Collective.
std::vector<std::vector<double>> times_of_ranks(const Group& group, std::span<const double> seconds,
                                                double whole);

}  // namespace ddprun::training
