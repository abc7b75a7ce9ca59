#pragma once

#include <cstdio>
#include <string>

namespace ddprun::testing {

/// Says aloud that the running test cannot run here, and why; the test returns right after. scripts/test.sh repeats
/// every such line at its end: `if (!is_root()) return skipped("needs root for network namespaces");`
inline void skipped(const std::string& reason) {
  std::fprintf(stderr, "SKIPPED: %s\n", reason.c_str());
}

}  // namespace ddprun::testing
