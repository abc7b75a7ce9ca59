#include "worker/training/state/rng.h"

#include "tests/support/catch.h"

#include <torch/types.h>

#include <set>

using namespace ddprun::training;

TEST_CASE("generators go on exactly where their saved state was") {
  seed_generators(at::kCPU, 5);
  static_cast<void>(at::rand({3}));
  const std::string state = generator_state(at::kCPU);
  const at::Tensor expected = at::rand({4});
  static_cast<void>(at::randn({100}));
  REQUIRE(set_generator_state(at::kCPU, state));
  CHECK(at::equal(at::rand({4}), expected));
}

TEST_CASE("a state of another size is not taken") { CHECK_FALSE(set_generator_state(at::kCPU, "short")); }

TEST_CASE("ranks and steps have different seeds") {
  std::set<std::uint64_t> seeds;
  for (int rank = 0; rank < 50; ++rank) {
    for (std::int64_t step = 0; step < 50; ++step) seeds.insert(rank_seed(0, rank, step));
  }
  CHECK(seeds.size() == 2500);
}
