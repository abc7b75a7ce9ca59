// What it costs a rank to tell that a collective begins, or ends: nanoseconds for one of the two, of a million of each.
#include "worker/runtime/comm/backend/progress.h"

#include <chrono>
#include <cstdint>
#include <cstdio>

int main() {
  using std::chrono::steady_clock;
  constexpr std::int64_t kCalls = 1'000'000;
  ddprun::runtime::Progress& progress = ddprun::runtime::Progress::instance();
  const std::uint16_t group = progress.add_group("world");
  const auto begin = steady_clock::now();
  for (std::int64_t sequence = 1; sequence <= kCalls; ++sequence) {
    progress.leave(progress.enter(
        {.operation = "all_reduce", .sequence = sequence, .elements = 1000, .dtype = 6, .group = group}));
  }
  const std::chrono::duration<double, std::nano> took = steady_clock::now() - begin;
  std::printf("%.2f\n", took.count() / (2.0 * kCalls));
}
