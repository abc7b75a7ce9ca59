#pragma once

#include "rendezvous/base/clock.h"

#include <cstdint>

namespace ddprun::membership::testing {

/// Random numbers that are small, fast and the same everywhere (Steele et al., "Fast splittable pseudorandom
/// number generators", 2014).
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  /// 0 … limit−1
  int below(int limit) { return static_cast<int>(next() % static_cast<std::uint64_t>(limit)); }
  bool chance(int percent) { return below(100) < percent; }
  Duration up_to(Duration limit) {
    return Duration(static_cast<Duration::rep>(next() % static_cast<std::uint64_t>(limit.count() + 1)));
  }

 private:
  std::uint64_t state_;
};

}  // namespace ddprun::membership::testing
