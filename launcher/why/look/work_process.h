#pragma once

#include "launcher/process/process_table.h"

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace ddprun::launcher::why {

/// What is known of a process of a worker when the one is looked for that does the work.
struct WorkCandidate {
  pid_t pid = 0;
  pid_t parent = 0;
  std::uint64_t started = 0;  ///< in ticks since boot
  bool has_torch = false;     ///< libtorch is loaded
  bool only_starts = false;   ///< a shell, or another program that starts programs and waits for them
};

/// The process that does the work of a worker, which may be a script that has not called exec: the one nearest to the
/// worker that has loaded libtorch, the oldest of several. Where none has, the worker itself, or, from process to
/// process, the only child of one that only starts programs. Pure.
pid_t choose_work_process(pid_t worker, const std::vector<WorkCandidate>& processes);

/// The same by what /proc shows now. `processes` are all there are (read_processes).
pid_t find_work_process(pid_t worker, const std::vector<ProcessEntry>& processes);

/// Whether it has loaded libtorch.
bool has_torch(pid_t pid);

}  // namespace ddprun::launcher::why
