#pragma once

#include "rendezvous/base/result.h"
#include "worker/data/images.h"

#include <cstdint>
#include <string>

namespace ddprun::data {

inline constexpr std::int64_t kMnistSide = 28;  ///< pixels
inline constexpr int kMnistClasses = 10;

/// How many samples of each split to keep, from the start; 0: all.
struct SampleLimits {
  std::int64_t train = 0;
  std::int64_t held_out = 0;
};

/// Two sets whose files have the same names, sizes and classes.
enum class Mnist { kDigits, kFashion };

/// Loads train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte
/// of `folder`, each plain or with .gz (a plain one wins).
///
/// Errors  kNotFound, kCorrupt, kOs: one sentence naming the file, what was expected and found, and what to
///         do; kConfig: these are the official files of the other set, by their first labels.
Result<ImageSplits> load_mnist(Mnist which, const std::string& folder, const SampleLimits& limits);

}  // namespace ddprun::data
