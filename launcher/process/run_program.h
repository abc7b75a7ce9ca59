#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct ProgramOutput {
  int refused = 0;         ///< errno of a program that could not be started
  bool has_ended = false;  ///< by itself, within the limit
  int code = -1;
  std::string out;
  std::string err;
};

/// Runs a program to its end, or kills it at the limit; it ends with the caller. Blocks: for processes that have
/// nothing else to do.
ProgramOutput run_program(const std::vector<std::string>& words, std::chrono::milliseconds limit);

}  // namespace ddprun::launcher
