#include "rendezvous/membership/ranks.h"

#include "tests/support/catch.h"

#include <string>
#include <vector>

namespace ddprun::membership {
namespace {

Candidate candidate(std::uint64_t arrival, const std::string& host,
                    std::optional<int> previous = std::nullopt, std::optional<int> pinned = std::nullopt) {
  Candidate result{.node = {.id = MemberId(arrival), .host = host, .address = {}}, .arrival = arrival};
  if (previous) result.previous = NodeRank(*previous);
  if (pinned) result.node.pinned = NodeRank(*pinned);
  return result;
}

std::vector<std::string> hosts(const std::vector<Candidate>& candidates) {
  std::vector<std::string> names;
  for (const Candidate& each : candidates) names.push_back(each.node.host);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("the first world is in natural order of host names, however they came") {
  const std::vector<Candidate> came{candidate(1, "node10"), candidate(2, "node2"), candidate(3, "node1")};
  CHECK(hosts(assign_ranks(came, 3).by_rank) == Names{"node1", "node2", "node10"});
}

TEST_CASE("agents of one host are ranked as they came") {
  const std::vector<Candidate> came{candidate(2, "a"), candidate(1, "a")};
  CHECK(assign_ranks(came, 2).by_rank[0].arrival == 1);
}

TEST_CASE("survivors keep their ranks and a replacement fills the hole") {
  const std::vector<Candidate> came{candidate(1, "a", 2), candidate(2, "b", 0), candidate(9, "z")};
  CHECK(hosts(assign_ranks(came, 3).by_rank) == Names{"b", "z", "a"});
}

TEST_CASE("when the world shrinks, only survivors whose rank is gone move") {
  const std::vector<Candidate> came{candidate(1, "a", 3), candidate(2, "b", 0), candidate(3, "c", 2)};
  CHECK(hosts(assign_ranks(came, 4).by_rank) == Names{"b", "a", "c"});
}

TEST_CASE("--node-rank pins a rank among nodes that have none") {
  const std::vector<Candidate> came{candidate(1, "a"), candidate(2, "b", std::nullopt, 0), candidate(3, "c")};
  CHECK(hosts(assign_ranks(came, 3).by_rank) == Names{"b", "a", "c"});
}

TEST_CASE("surplus nodes are spares: survivors sit first, then pinned nodes, then the others as they came") {
  const std::vector<Candidate> came{candidate(1, "a"), candidate(2, "b"), candidate(3, "c", 0),
                                    candidate(4, "d", std::nullopt, 1)};
  const Seating seating = assign_ranks(came, 2);
  CHECK(hosts(seating.by_rank) == Names{"c", "d"});
  CHECK(hosts(seating.spares) == Names{"a", "b"});
}

TEST_CASE("ranks are contiguous per node in node-rank order, role ranks per role") {
  std::vector<Candidate> seated{candidate(1, "a"), candidate(2, "b"), candidate(3, "c")};
  seated[0].node.local_world_size = LocalWorldSize(2);
  seated[1].node.local_world_size = LocalWorldSize(3);
  seated[1].node.role = "reader";
  const std::vector<Seat> seats = make_seats(seated, Generation(4));
  CHECK(seats[2].base_rank == Rank(5));
  CHECK(seats[2].world_size == WorldSize(6));
  CHECK(seats[2].base_role_rank == Rank(2));
  CHECK(seats[1].base_role_rank == Rank(0));
  CHECK(seats[1].role_world_size == WorldSize(3));
  CHECK(restart_count(seats[0].generation) == 3);
}

}  // namespace ddprun::membership
