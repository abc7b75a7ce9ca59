#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct ProgramOutput {
  int refused = 0;         ///< errno of a program that could not be started
  bool has_ended = false;  ///< within the limit, as has whoever else could write to its stdout and stderr
  int code = -1;           ///< exit code; -1: it was refused, has not ended, or was killed by a signal
  std::string out;
  std::string err;
};

/// Runs a program until it has ended and its stdout and stderr are closed, or kills it at the limit, also where it
/// could not begin by then; it ends with the caller. Blocks so long, and no longer: for processes that have nothing
/// else to do.
///
/// Process  SIGCHLD gets its default from then on.
ProgramOutput run_program(const std::vector<std::string>& words, std::chrono::milliseconds limit);

}  // namespace ddprun::launcher
