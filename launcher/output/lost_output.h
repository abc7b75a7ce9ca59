#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace ddprun::launcher {

/// Bytes that did not get where they were to go.
struct LostOutput {
  std::string where;  ///< "stdout", "stderr", or a path
  std::uint64_t bytes = 0;
  std::string why;  ///< "No space left on device", "its reader is gone", …
};

/// "10 bytes for stdout are lost: No space left on device".
inline std::string to_string(const LostOutput& lost) {
  return fmt::format("{} bytes for {} are lost: {}", lost.bytes, lost.where, lost.why);
}

}  // namespace ddprun::launcher
