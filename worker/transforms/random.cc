#include "worker/transforms/random.h"

#include <cmath>
#include <numbers>

namespace ddprun::transforms {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
               low(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

Random::Random(const RandomKey& key)
    : counter_{0, low(static_cast<std::uint64_t>(key.epoch)), low(static_cast<std::uint64_t>(key.index)),
               high(static_cast<std::uint64_t>(key.index)) ^ std::uint32_t{key.stream} << 24},
      key_{low(key.seed), high(key.seed)} {}

std::uint32_t Random::bits() {
  if (used_ == 4) {
    block_ = philox(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[static_cast<std::size_t>(used_++)];
}

float Random::uniform(float from, float to) {
  const float unit = static_cast<float>(bits() & 0xffffffU) * 0x1p-24F;
  return unit * (to - from) + from;
}

std::int64_t Random::below(std::int64_t bound) {
  const auto range = static_cast<std::uint64_t>(bound);
  const std::uint64_t rest = (0 - range) % range;  // 2^64 modulo range: what would make small values likelier
  while (true) {
    const std::uint64_t value = std::uint64_t{bits()} << 32 | bits();
    if (value >= rest) return static_cast<std::int64_t>(value % range);
  }
}

double Random::unit() {
  const std::uint64_t value = std::uint64_t{bits()} << 32 | bits();
  return (static_cast<double>(value >> 11) + 0.5) * 0x1p-53;
}

double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(unit()));
  return radius * std::cos(2 * std::numbers::pi * unit());
}

// Marsaglia and Tsang, "A Simple Method for Generating Gamma Variables", 2000; below 1 by their §6.
double Random::gamma(double shape) {
  if (shape < 1) {
    const double above = gamma(shape + 1);
    return above * std::pow(unit(), 1 / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal();
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(unit()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

double Random::beta(double alpha) {
  const double one = gamma(alpha);
  const double other = gamma(alpha);
  return one + other > 0 ? one / (one + other) : (chance(0.5) ? 1.0 : 0.0);
}

}  // namespace ddprun::transforms
