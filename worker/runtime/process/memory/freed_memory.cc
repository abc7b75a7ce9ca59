#include "worker/runtime/process/memory/freed_memory.h"

#include <malloc.h>

#include <cstdlib>
#include <string_view>

namespace ddprun::runtime {
namespace {

constexpr int kMostKept = 1 << 30;
/// Of glibc before 2.35, which takes no higher threshold.
constexpr int kMostOnHeap = 32 << 20;
/// By so much more than is needed the heap grows, so that it grows seldom.
constexpr int kGrowth = 64 << 20;

}  // namespace

void keep_freed_memory() {
  const char* const tunables = std::getenv("GLIBC_TUNABLES");
  const auto is_tuned = [&](std::string_view name) {
    return tunables != nullptr && std::string_view(tunables).find(name) != std::string_view::npos;
  };
  if (!is_tuned("mmap_threshold") && ::mallopt(M_MMAP_THRESHOLD, kMostKept) == 0)
    ::mallopt(M_MMAP_THRESHOLD, kMostOnHeap);
  if (!is_tuned("trim_threshold")) ::mallopt(M_TRIM_THRESHOLD, kMostKept);
  if (!is_tuned("top_pad")) ::mallopt(M_TOP_PAD, kGrowth);
}

void release_freed_memory() { ::malloc_trim(0); }

}  // namespace ddprun::runtime
