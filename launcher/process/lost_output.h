#pragma once

#include <cstdint>
#include <string>

namespace ddprun::launcher {

/// Bytes that did not get where they were to go.
struct LostOutput {
  std::string where;  ///< "stdout", "stderr", or a path
  std::uint64_t bytes = 0;
  std::string why;  ///< "No space left on device", "its reader is gone", …
};

}  // namespace ddprun::launcher
