#pragma once

#include <chrono>

namespace ddprun::runtime {

/// As long as one lives, something of this process is not finished that others rely on: a checkpoint that is not on the
/// disk. An end that unwinds nothing waits for it, for kMostForTheUnfinished at most. Any thread.
class Unfinished {
 public:
  Unfinished();
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
};

/// Less than the thirty seconds after which a launcher kills.
inline constexpr std::chrono::milliseconds kMostForTheUnfinished{20'000};

[[nodiscard]] bool is_something_unfinished();

/// Blocks until nothing is, or for `most`.
void wait_for_the_unfinished(std::chrono::milliseconds most = kMostForTheUnfinished);

}  // namespace ddprun::runtime
