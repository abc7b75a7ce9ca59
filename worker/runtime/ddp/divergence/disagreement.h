#pragma once

#include <ddprun/divergence.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::runtime {

/// Where the ranks' lists of hashes are not the same.
struct Disagreement {
  std::size_t index = 0;       ///< of the first tensor that is not equal on all ranks
  std::vector<int> differing;  ///< the ranks where it is not what the reference has, rising
  int reference = 0;  ///< the lowest rank of the largest party; of equally large ones, of the lowest rank's
  bool is_majority = false;  ///< more than half of the ranks have what the reference has
  std::size_t tensors = 0;   ///< of the longest list
  std::size_t unequal = 0;   ///< how many tensors are not equal on all ranks
};

/// Pure. `hashes[rank][tensor]`; lists of other lengths lack the rest. nullopt: all are equal.
std::optional<Disagreement> judge_replicas(const std::vector<std::vector<TensorHash>>& hashes);

/// What is told about it, the same on every rank. Pure.
struct Telling {
  std::int64_t step = 0;
  std::optional<std::int64_t> last_equal_step;
  std::vector<std::string> descriptions;  ///< of the tensor by rank; empty: there is none
  std::vector<int> world_ranks;           ///< by rank
};
std::string explain(const Disagreement& disagreement, const Telling& telling);

}  // namespace ddprun::runtime
