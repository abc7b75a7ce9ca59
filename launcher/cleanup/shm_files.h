#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <set>
#include <string_view>

namespace ddprun::launcher {

/// Now, by the clock that the kernel stamps files with; it moves in ticks of some milliseconds.
std::chrono::system_clock::time_point file_clock_now();

/// The pid in the name that PyTorch gives a segment, "torch_<pid>_<random>_<count>"; none when the name is
/// not exactly of that kind. Pure.
std::optional<pid_t> torch_segment_maker(std::string_view name);

/// Removes the segments that a job's processes, `makers`, made in /dev/shm by PyTorch's naming and that died
/// before they could: of our user, born after the job was. Nothing else is ever removed: a file that a worker
/// merely opened, or that has a pid somewhere in its name, may be anybody's.
///
/// Namespaces  a pid names its process in one pid namespace only, and containers may share a /dev/shm. A file
///             stays while any process, in any namespace, has the pid in its name; and where this process
///             cannot see them all, in a container of its own, every file stays.
void remove_torch_segments(const std::set<pid_t>& makers, std::chrono::system_clock::time_point job_started);

}  // namespace ddprun::launcher
