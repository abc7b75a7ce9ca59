#pragma once

#include <ddprun/pt_value.h>

#include <vector>

namespace ddprun::training {

/// What one of `of` ranks keeps of a value that all of them have: about as many bytes of its tensors as each other
/// one, None in place of those that are another's, and everything else. Pure.
[[nodiscard]] PtValue shard_of(const PtValue& whole, int rank, int of);

/// The value that these are the shards of, by rank. Pure.
/// Errors  Exception kCorrupt: they are not of one value.
[[nodiscard]] PtValue join_shards(const std::vector<PtValue>& shards);

}  // namespace ddprun::training
