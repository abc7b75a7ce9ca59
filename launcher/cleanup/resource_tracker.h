#pragma once

#include <sys/types.h>

#include <chrono>
#include <string_view>

namespace ddprun::launcher {

/// Programs whose whole task is to remove from /dev/shm what their client, once dead, has left there:
/// Python's resource tracker and PyTorch's shared-memory manager. They know exactly what to remove, also of a
/// process that we have never seen, and end themselves when the last client is dead, the manager two seconds later
/// (SHUTDOWN_TIMEOUT in torch/lib/libshm/manager.cpp); who kills them first keeps the files.
///
/// `command_line` is the text of /proc/<pid>/cmdline: words that end in a NUL. Pure.
bool is_resource_tracker(std::string_view command_line);

/// is_resource_tracker for a process; false when there is no such process.
bool is_resource_tracker(pid_t pid);

/// How long one may take once the job's other processes are being killed. A program that only pretends
/// to be one lives no longer either.
inline constexpr std::chrono::milliseconds kResourceTrackerTime(2500);

}  // namespace ddprun::launcher
