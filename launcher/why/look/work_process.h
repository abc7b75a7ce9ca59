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
  bool records = false;       ///< it has recorded something of its own (RankRecord::has_own)
  bool only_starts = false;   ///< a shell, or another program that starts programs and waits for them
};

/// The process that does the work of a worker, which may be a script that has not called exec, or have children that
/// train: the one nearest to the worker that has recorded something of its own, the oldest of several. Where none has,
/// the one that has loaded libtorch, in the same order. Where none has that, the worker itself, or, from process to
/// process, the only child of one that only starts programs. Pure.
pid_t choose_work_process(pid_t worker, const std::vector<WorkCandidate>& processes);

/// The same by what /proc and the processes' memory show now. `processes` are all there are (read_processes). Of a
/// worker that is in a process group itself nobody else is looked at.
pid_t find_work_process(pid_t worker, const std::vector<ProcessEntry>& processes);

/// How many processes below a worker, beside the one that was chosen and what that has started, have recorded something
/// of their own.
int count_siblings(pid_t worker, pid_t work, const std::vector<ProcessEntry>& processes);

/// Whether it has loaded libtorch.
bool has_torch(pid_t pid);

}  // namespace ddprun::launcher::why
