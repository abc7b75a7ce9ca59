#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// What /proc says about a process of this user.
struct ProcessFacts {
  pid_t pid = 0;
  pid_t own_pid = 0;  ///< as the process itself knows it: another one in a pid namespace of its own
  pid_t parent = 0;
  char state = '?';  ///< R, S, D, T, t, Z
  double age_s = 0;
  double cpu_s = 0;                    ///< user and system time so far
  std::uint64_t memory = 0;            ///< resident bytes
  std::vector<std::string> arguments;  ///< argv
  std::string job_state;               ///< what a launcher publishes, job_state.h; empty: nothing
};

/// This user's processes; what vanishes or may not be read meanwhile is left out.
std::vector<ProcessFacts> read_own_processes();

}  // namespace ddprun::launcher
