#include "worker/runtime/process/memory/freed_memory.h"

#include "tests/support/catch.h"

#include <sys/resource.h>

#include <array>
#include <cstdlib>
#include <cstring>

using namespace ddprun::runtime;

namespace {

/// How many pages a step of some activations has got from the kernel.
long faults_of_step() {
  const auto faults = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  const long before = faults();
  std::array<void*, 4> blocks{};
  constexpr std::array<std::size_t, 4> kSizes{3 << 20, 40 << 20, 700 << 10, 12 << 20};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = std::malloc(kSizes[i]);
    std::memset(blocks[i], 1, kSizes[i]);
  }
  for (void* block : blocks) std::free(block);
  return faults() - before;
}

}  // namespace

TEST_CASE("what a step has freed is kept for the next, until it is given back") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  WARN("not run: a sanitizer brings a malloc of its own, which mallopt does not reach");
  return;
#endif
  keep_freed_memory();
  faults_of_step();
  CHECK(faults_of_step() < 100);
  release_freed_memory();
  CHECK(faults_of_step() > 100);
}
