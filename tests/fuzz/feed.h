#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

/// The fuzz target, by libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace ddprun::fuzz {

/// The main of a fuzz program that has no libFuzzer: NAME SECONDS [SEED]. Feeds what Generator(seed).next()
/// makes to the target; prints the seed, with which a crash is repeated.
template <class Generator>
int feed(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  Generator generator(seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::uint64_t inputs = 0;
  for (; std::chrono::steady_clock::now() < end; ++inputs) {
    const std::string input = generator.next();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
  std::printf("%llu inputs, nothing broke\n", static_cast<unsigned long long>(inputs));
  return 0;
}

}  // namespace ddprun::fuzz
