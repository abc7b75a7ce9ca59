#include "rendezvous/base/ids.h"

#include "tests/support/catch.h"

#include <type_traits>

using namespace ddprun;

TEST_CASE("ids of different kinds cannot be mixed") {
  STATIC_REQUIRE_FALSE(std::is_convertible_v<Rank, LocalRank>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<int, Rank>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<Rank, WorldSize>);
}

TEST_CASE("ids compare, print and format as their number") {
  CHECK(Rank(1) < Rank(2));
  CHECK(to_string(Port(29500)) == "29500");
  CHECK(fmt::format("rank {}", Rank(3)) == "rank 3");
}
