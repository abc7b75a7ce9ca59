#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ddprun::bench {

/// Counts durations in buckets whose width is 1/32 of their value: quantiles are right within 3 %.
/// Plain data, so that it can lie in memory shared by processes.
struct Histogram {
  static constexpr std::size_t kSubBuckets = 32;
  static constexpr std::size_t kBuckets = 40 * kSubBuckets;

  std::array<std::uint32_t, kBuckets> counts{};

  void add(std::chrono::nanoseconds duration);
  void merge(const Histogram& other);
  [[nodiscard]] std::uint64_t total() const;
  /// The duration below which this share of all lie.
  [[nodiscard]] std::chrono::nanoseconds quantile(double share) const;
};

}  // namespace ddprun::bench
