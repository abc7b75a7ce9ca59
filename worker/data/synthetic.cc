#include "worker/data/synthetic.h"

#include "worker/data/mnist.h"

#include <array>
#include <cstddef>
#include <random>

namespace ddprun::data {
namespace {

constexpr std::size_t kMnistPixels = kMnistSide * kMnistSide;

// Only the engine's raw numbers are used: std::uniform_… differs between standard libraries.
using Engine = std::mt19937_64;
using Patterns = std::array<std::array<std::uint8_t, kMnistPixels>, kMnistClasses>;

Patterns make_patterns(Engine& engine) {
  Patterns patterns;
  for (auto& pattern : patterns) {
    for (auto& pixel : pattern) pixel = (engine() & 3) == 0 ? 160 : 0;
  }
  return patterns;
}

Images make_split(const Patterns& patterns, std::int64_t count, Engine& engine) {
  Images set;
  set.count = count;
  set.height = kMnistSide;
  set.width = kMnistSide;
  set.classes = kMnistClasses;
  set.mean = {0.28F};
  set.deviation = {0.31F};
  set.pixels.resize(static_cast<std::size_t>(count) * kMnistPixels);
  set.labels.resize(static_cast<std::size_t>(count));
  std::uint8_t* pixel = set.pixels.data();
  for (std::uint8_t& label : set.labels) {
    label = static_cast<std::uint8_t>(engine() % kMnistClasses);
    for (std::size_t i = 0; i < kMnistPixels; i += 8) {
      std::uint64_t noise = engine();
      for (std::size_t k = 0; k < 8; ++k, noise >>= 8) {
        *pixel++ = static_cast<std::uint8_t>(patterns[label][i + k] + (noise & 0x5f));
      }
    }
  }
  return set;
}

}  // namespace

ImageSplits make_synthetic(const SyntheticOptions& options) {
  Engine engine(options.seed);
  const Patterns patterns = make_patterns(engine);
  ImageSplits splits;
  splits.train = make_split(patterns, options.train_samples, engine);
  splits.held_out = make_split(patterns, options.held_out_samples, engine);
  return splits;
}

}  // namespace ddprun::data
