#pragma once

#include <ddprun/init.h>

#include <cstdint>
#include <functional>
#include <string>

namespace ddprun::bench {

/// One step of what is measured.
using Step = std::function<void()>;

/// A line of the commands that programs which are compared take turns by: "WHAT SIZE TIMES [HOW]".
struct Turn {
  std::string what;
  std::int64_t size = 0;
  int times = 0;
  std::string how;

  /// Of what is made when it is first named, and then kept.
  [[nodiscard]] std::string name() const { return what + " " + std::to_string(size) + " " + how; }
};

/// Reads lines on rank 0 from the file (or pipe) `path` until it ends, and does each on every rank; rank 0 prints what
/// `answer` returns as a line. Collective.
void take_turns(const Context& context, const char* path,
                const std::function<std::string(const Turn&)>& answer);

}  // namespace ddprun::bench
