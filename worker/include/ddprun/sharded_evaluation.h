#pragma once

#include <ddprun/group.h>

#include <cstdint>
#include <vector>

namespace ddprun {

/// The samples of a rank in an evaluation over all ranks: a block of 0…count-1, every sample on exactly one
/// rank. (DistributedSampler repeats some so that all ranks have as many, which a mean must not count.) Ranks
/// may have none: the model runs without collectives, through the bare module, after
/// DistributedDataParallel::sync_buffers().
[[nodiscard]] std::vector<std::int64_t> evaluation_shard(std::int64_t count, const Group& group);
/// The same for rank `rank` of `size`. Pure.
[[nodiscard]] std::vector<std::int64_t> evaluation_shard(std::int64_t count, int rank, int size);

/// The sums over all ranks of what each has counted (loss, hits, samples), the same on every rank; exact as
/// far as doubles are. `counted` has the same length on every rank. Collective over `group`.
[[nodiscard]] std::vector<double> sum_over_ranks(const Group& group, const std::vector<double>& counted);

}  // namespace ddprun
