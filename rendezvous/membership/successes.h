#pragma once

#include "rendezvous/membership/types.h"

#include <set>
#include <string>

namespace ddprun::membership {

/// Which nodes of the last generation have succeeded, whether they are still there or not: who has said so is
/// done. Pure.
class Successes {
 public:
  /// A generation of so many nodes begins; what was before counts no more.
  void begin(Generation generation, int nodes, std::string coordinator);
  /// Of an earlier generation it says nothing; a later one, of which a coordinator that is new has not heard,
  /// begins with it.
  void add(const Success& success);

  /// Whether `success` is of the generation that these are of.
  [[nodiscard]] bool are_of(const Success& success) const;
  [[nodiscard]] bool has(NodeRank rank) const { return ranks_.contains(rank); }
  [[nodiscard]] bool empty() const { return ranks_.empty(); }
  /// All nodes of `generation` have.
  [[nodiscard]] bool are_all_of(Generation generation) const {
    return generation == generation_ && missing() == 0;
  }
  /// Some nodes of `generation` have, and some have not.
  [[nodiscard]] bool is_missing_some_of(Generation generation) const {
    return generation == generation_ && !empty() && missing() > 0;
  }
  /// How many nodes of the generation have not.
  [[nodiscard]] int missing() const { return nodes_ - static_cast<int>(ranks_.size()); }

 private:
  Generation generation_;
  int nodes_ = 1;
  std::string coordinator_;
  std::set<NodeRank> ranks_;
};

}  // namespace ddprun::membership
