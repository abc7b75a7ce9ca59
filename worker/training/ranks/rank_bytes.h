#pragma once

#include "worker/training/ranks/rank_block.h"
#include <ddprun/pt_value.h>

#include <optional>
#include <string>
#include <vector>

namespace ddprun::training {

/// What each rank of a job has, as a list of rows of bytes by rank, wherever the ranks live; `mine` is by turn.
/// Collective.
PtList bytes_of_ranks(const Context& context, const RankBlock& block, const std::vector<std::string>& mine);

/// Of that list, what the ranks of `block` have, by turn; nullopt: it is of a job of more or fewer ranks.
/// Errors  Exception kCorrupt, naming `entry`: it is none.
std::optional<std::vector<std::string>> bytes_of_block(const PtValue& list, const RankBlock& block,
                                                       const std::string& entry);

/// What the ranks of a block have, by turn, as such a list of its own, and back: `count` rows.
/// Errors  Exception kCorrupt, naming `entry`: it is none.
PtList list_of_block(const std::vector<std::string>& mine);
std::vector<std::string> bytes_of_own(const PtValue& list, std::size_t count, const std::string& entry);

}  // namespace ddprun::training
