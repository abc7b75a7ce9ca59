#include "worker/training/state/generators.h"

#include "tests/support/catch.h"
#include "worker/training/state/rng.h"

#include <torch/types.h>

#include <vector>

using namespace ddprun::training;

namespace {

std::uint64_t seed_of(std::size_t turn) { return 100 + turn; }

/// What ranks that have a process each draw, by rank: three numbers in each of two steps.
std::vector<at::Tensor> drawn_alone(std::size_t ranks) {
  std::vector<at::Tensor> drawn;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    seed_generators(at::kCPU, seed_of(rank));
    drawn.push_back(at::rand({6}));
  }
  return drawn;
}

}  // namespace

TEST_CASE("ranks that take turns draw what each would draw alone") {
  const std::vector<at::Tensor> alone = drawn_alone(3);
  Generators generators(at::kCPU, 3);
  generators.seed(seed_of);
  std::vector<std::vector<at::Tensor>> drawn(3);
  for (int step = 0; step < 2; ++step) {
    for (std::size_t turn = 0; turn < 3; ++turn) {
      generators.turn_to(turn);
      drawn[turn].push_back(at::rand({3}));
    }
    generators.turn_to(0);
  }
  for (std::size_t turn = 0; turn < 3; ++turn) CHECK(at::equal(at::cat(drawn[turn]), alone[turn]));
}

TEST_CASE("states that are saved between two steps are gone on with by whoever has these ranks then") {
  const std::vector<at::Tensor> alone = drawn_alone(2);
  Generators together(at::kCPU, 2);
  together.seed(seed_of);
  for (const std::size_t turn : {0, 1, 0}) together.turn_to(turn);
  const std::vector<std::string> states = together.states();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Generators apart(at::kCPU, 1);
    REQUIRE(apart.set_states({states[rank]}));
    CHECK(at::equal(at::rand({6}), alone[rank]));
  }
}

TEST_CASE("states of another kind of device are not taken") {
  Generators generators(at::kCPU, 2);
  CHECK_FALSE(generators.set_states({"short", "short"}));
}
