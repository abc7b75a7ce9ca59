#pragma once

#include "rendezvous/membership/types.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ddprun::membership {

/// A node that could be in the next generation.
struct Candidate {
  NodeFacts node;
  std::optional<NodeRank> previous;  ///< its rank in the last generation
  std::uint64_t arrival = 0;         ///< order in which they joined
};

/// Who sits where, and who waits.
struct Seating {
  std::vector<Candidate> by_rank;  ///< index = node rank
  std::vector<Candidate> spares;   ///< more came than there are seats
};

/// Chooses at most `max_nodes` of the candidates and gives them the ranks 0…n−1.
///
/// Seats   survivors of the last generation first, then pinned nodes, then the others as they came.
/// Ranks   a survivor keeps its rank and a pinned node gets its own wherever that rank exists in this world;
///         the rest fill the vacant seats, survivors first, then by host name as strverscmp orders them (node2 before
///         node10), then as they came.
///         So the first world of node1…node10 is in that order, and a replacement takes the place of the node
///         it replaces.
Seating assign_ranks(std::span<const Candidate> candidates, int max_nodes);

/// The seats of a generation: ranks are contiguous per node in node-rank order, role ranks count nodes of one
/// role. Source: torchrun-compatible rank rule of PyTorch's elastic agent, `_assign_worker_ranks`.
std::vector<Seat> make_seats(std::span<const Candidate> by_rank, Generation generation);

}  // namespace ddprun::membership
