#include "tests/scenario/membership/promises.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace ddprun::membership::testing {

void Promises::broke(std::string sentence) {
  if (broken_.empty()) broken_ = std::move(sentence);
}

void Promises::generation_began(Generation generation) {
  if (generation <= current_) broke(fmt::format("generation {} after {}", generation, current_));
  previous_.clear();
  for (const auto& [id, held] : seats_) previous_.emplace(id, held.seat);
  seats_.clear();
  current_ = generation;
  is_complete_ = false;
}

void Promises::seated(MemberId id, LocalWorldSize workers, const Seat& seat) {
  if (seat.generation != current_)
    return broke(fmt::format("a seat of generation {} in {}", seat.generation, current_));
  if (const auto old = seats_.find(id); old != seats_.end()) {
    if (old->second.seat != seat) broke("a seat changed within a generation");
    return;
  }
  if (is_complete_) return broke(fmt::format("generation {} got another member after it began", current_));
  check_survivor(id, seat);
  seats_.emplace(id, Held{seat, workers});
}

void Promises::check_survivor(MemberId id, const Seat& seat) {
  const auto before = previous_.find(id);
  if (before == previous_.end()) return;
  const NodeRank old = before->second.node_rank;
  if (old.value() < seat.nodes && old != seat.node_rank)
    broke(fmt::format("a survivor of rank {} became rank {}", old, seat.node_rank));
}

// The seats of a generation are one world: node ranks 0…n−1, each once, and ranks without hole or overlap.
void Promises::all_seated() {
  if (is_complete_) return;
  is_complete_ = true;
  const int nodes = static_cast<int>(seats_.size());
  if (nodes < spec_.min_nodes || nodes > spec_.max_nodes)
    return broke(fmt::format("a world of {} nodes, not {} to {}", nodes, spec_.min_nodes, spec_.max_nodes));
  std::vector<const Held*> by_rank(seats_.size());
  for (const auto& [id, held] : seats_) {
    const int rank = held.seat.node_rank.value();
    if (held.seat.nodes != nodes) return broke("two sizes of one world");
    if (rank < 0 || rank >= nodes) return broke("a node rank outside the world");
    if (std::exchange(by_rank[static_cast<std::size_t>(rank)], &held) != nullptr)
      return broke("two nodes with one rank");
  }
  int ranks = 0;
  for (const Held* held : by_rank) {
    if (held->seat.base_rank.value() != ranks) return broke("ranks with a hole or an overlap");
    ranks += held->workers.value();
  }
  for (const Held* held : by_rank) {
    if (held->seat.world_size.value() != ranks) return broke("a world size that is not the number of ranks");
  }
}

void Promises::workers_started(const std::string& host, Generation generation, TimePoint at) {
  ++with_workers_[generation];
  if (with_workers_.size() == 1) return;
  broke(fmt::format("at {} ms {} started workers of generation {} beside those of generation {}",
                    (at - TimePoint{}) / std::chrono::milliseconds(1), host, generation,
                    with_workers_.begin()->first == generation ? with_workers_.rbegin()->first
                                                               : with_workers_.begin()->first));
}

void Promises::workers_ended(Generation generation) {
  const auto found = with_workers_.find(generation);
  if (--found->second == 0) with_workers_.erase(found);
}

}  // namespace ddprun::membership::testing
