#include "rendezvous/membership/ranks.h"

#include "rendezvous/base/check.h"

#include <string.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace ddprun::membership {
namespace {

int seat_preference(const Candidate& candidate) {
  if (candidate.previous) return 0;
  return candidate.node.pinned ? 1 : 2;
}

bool is_seated_before(const Candidate& a, const Candidate& b) {
  return std::tuple(seat_preference(a), a.arrival) < std::tuple(seat_preference(b), b.arrival);
}

bool fills_vacant_seat_before(const Candidate& a, const Candidate& b) {
  if (a.previous && b.previous) return *a.previous < *b.previous;
  if (a.previous.has_value() != b.previous.has_value()) return a.previous.has_value();
  if (a.node.host != b.node.host) return ::strverscmp(a.node.host.c_str(), b.node.host.c_str()) < 0;
  return a.arrival < b.arrival;
}

class Places {
 public:
  explicit Places(std::size_t count) : taken_(count) {}

  bool seat(const Candidate& candidate, std::optional<NodeRank> wanted) {
    if (!wanted || wanted->value() < 0 || wanted->value() >= static_cast<int>(taken_.size())) return false;
    auto& place = taken_[static_cast<std::size_t>(wanted->value())];
    if (place) return false;
    place = candidate;
    return true;
  }

  void fill_next(const Candidate& candidate) {
    while (taken_[next_]) ++next_;
    taken_[next_] = candidate;
  }

  std::vector<Candidate> finish() {
    std::vector<Candidate> by_rank;
    by_rank.reserve(taken_.size());
    for (auto& place : taken_) {
      DDPRUN_CHECK(place.has_value(), "every rank of a world has a node");
      by_rank.push_back(std::move(*place));
    }
    return by_rank;
  }

 private:
  std::vector<std::optional<Candidate>> taken_;
  std::size_t next_ = 0;
};

}  // namespace

Seating assign_ranks(std::span<const Candidate> candidates, int max_nodes) {
  std::vector<Candidate> chosen(candidates.begin(), candidates.end());
  std::sort(chosen.begin(), chosen.end(), is_seated_before);
  Seating seating;
  const auto seats = std::min(chosen.size(), static_cast<std::size_t>(std::max(max_nodes, 0)));
  seating.spares.assign(chosen.begin() + static_cast<std::ptrdiff_t>(seats), chosen.end());
  chosen.resize(seats);

  Places places(seats);
  std::vector<Candidate> unplaced;
  std::vector<Candidate> pinned_later;
  for (const Candidate& candidate : chosen) {
    if (candidate.previous && places.seat(candidate, candidate.previous)) continue;
    pinned_later.push_back(candidate);
  }
  for (const Candidate& candidate : pinned_later) {
    if (!places.seat(candidate, candidate.node.pinned)) unplaced.push_back(candidate);
  }
  std::sort(unplaced.begin(), unplaced.end(), fills_vacant_seat_before);
  for (const Candidate& candidate : unplaced) places.fill_next(candidate);
  seating.by_rank = places.finish();
  return seating;
}

std::vector<Seat> make_seats(std::span<const Candidate> by_rank, Generation generation) {
  std::vector<Seat> seats;
  seats.reserve(by_rank.size());
  int world = 0;
  std::map<std::string, int> role_worlds;
  for (const Candidate& candidate : by_rank) {
    int& role_world = role_worlds[candidate.node.role];
    seats.push_back(Seat{.generation = generation,
                         .node_rank = NodeRank(static_cast<int>(seats.size())),
                         .nodes = static_cast<int>(by_rank.size()),
                         .base_rank = Rank(world),
                         .base_role_rank = Rank(role_world)});
    world += candidate.node.local_world_size.value();
    role_world += candidate.node.local_world_size.value();
  }
  for (std::size_t i = 0; i < seats.size(); ++i) {
    seats[i].world_size = WorldSize(world);
    seats[i].role_world_size = WorldSize(role_worlds[by_rank[i].node.role]);
  }
  return seats;
}

}  // namespace ddprun::membership
