#include "worker/transforms/random.h"

#include "tests/support/catch.h"

#include <array>
#include <cstdlib>
#include <set>

using namespace ddprun::transforms;

// The vectors that the authors of Philox publish with Random123 (kat_vectors).
TEST_CASE("philox gives the published numbers") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
        std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("the same key gives the same numbers, and each part of the key others") {
  const auto first = [](const RandomKey& key) {
    Random random(key);
    return std::array{random.bits(), random.bits(), random.bits(), random.bits(), random.bits()};
  };
  const RandomKey key{.seed = 7, .epoch = 2, .index = 5};
  CHECK(first(key) == first(key));
  const std::set<std::array<std::uint32_t, 5>> seen{
      first(key),
      first({.seed = 8, .epoch = 2, .index = 5}),
      first({.seed = 7, .epoch = 3, .index = 5}),
      first({.seed = 7, .epoch = 2, .index = 6}),
      first({.seed = 7, .epoch = 2, .index = 5, .stream = 1}),
      first({.seed = 7, .epoch = 2, .index = 5 + (std::int64_t{1} << 32)})};
  CHECK(seen.size() == 6);
}

TEST_CASE("below gives each value about equally often and none beyond") {
  Random random({.seed = 1});
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts.at(static_cast<std::size_t>(random.below(7)));
  for (const int count : counts) CHECK(std::abs(count - 10000) < 400);
}

TEST_CASE("uniform stays within its bounds") {
  Random random({.seed = 1});
  for (int i = 0; i < 10000; ++i) {
    const float value = random.uniform(-2, 3);
    CHECK((value >= -2 && value < 3));
  }
}
