#include "tests/bench/store/histogram.h"

#include <algorithm>
#include <bit>

namespace ddprun::bench {
namespace {

// The highest bit selects the octave, the five below it the place within.
std::size_t bucket_of(std::uint64_t value) {
  if (value < Histogram::kSubBuckets) return static_cast<std::size_t>(value);
  const auto octave = static_cast<std::size_t>(std::bit_width(value)) - 6;
  const std::size_t place = static_cast<std::size_t>(value >> octave);
  return std::min(octave * Histogram::kSubBuckets + place, Histogram::kBuckets - 1);
}

std::uint64_t lower_edge(std::size_t bucket) {
  if (bucket < 2 * Histogram::kSubBuckets) return bucket;
  const std::size_t octave = bucket / Histogram::kSubBuckets - 1;
  return static_cast<std::uint64_t>(bucket - octave * Histogram::kSubBuckets) << octave;
}

}  // namespace

void Histogram::add(std::chrono::nanoseconds duration) {
  ++counts[bucket_of(static_cast<std::uint64_t>(std::max<std::int64_t>(0, duration.count())))];
}

void Histogram::merge(const Histogram& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) counts[i] += other.counts[i];
}

std::uint64_t Histogram::total() const {
  std::uint64_t sum = 0;
  for (const std::uint32_t count : counts) sum += count;
  return sum;
}

std::chrono::nanoseconds Histogram::quantile(double share) const {
  const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(total()));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += counts[i];
    if (seen > wanted) return std::chrono::nanoseconds(lower_edge(i));
  }
  return std::chrono::nanoseconds(0);
}

}  // namespace ddprun::bench
