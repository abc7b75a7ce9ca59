#pragma once

#include <array>
#include <cstdint>

namespace ddprun::transforms {

/// What the random numbers of one image follow from, and nothing else.
struct RandomKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t index = 0;   ///< of the sample, below 2^56
  std::uint8_t stream = 0;  ///< sets apart users that share the other three: 0 images, 1 batches
};

/// Random numbers without a state to share: the n-th number of a key is always the same, whatever thread asks.
///
/// Source   Philox4x32 with 10 rounds (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
///          Key: the seed. Counter: block, epoch, and 64 bits of index and stream.
/// Threads  one at a time; it costs 48 bytes and nothing to make.
class Random {
 public:
  explicit Random(const RandomKey& key);

  std::uint32_t bits();
  /// In [from, to), a multiple of 2^-24 of the range, in float: as torch draws it.
  float uniform(float from, float to);
  /// True in a share `p` of cases.
  bool chance(double p) { return uniform(0, 1) < static_cast<float>(p); }
  /// In [0, bound), each value equally likely; bound ≥ 1.
  std::int64_t below(std::int64_t bound);
  /// Normal, of mean 0 and deviation 1.
  double normal();
  /// Of the Beta distribution with both parameters `alpha`, in [0, 1]; alpha > 0.
  double beta(double alpha);

 private:
  double unit();  // in (0, 1), 53 bits
  double gamma(double shape);

  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
};

/// The block of four numbers that Philox4x32-10 gives for a counter and a key.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

}  // namespace ddprun::transforms
