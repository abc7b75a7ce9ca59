#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace ddprun::launcher {

/// A mark that a process cannot lose by accident: its limit of file locks, RLIMIT_LOCKS, which has had no
/// effect since Linux 2.4.25 and which nobody sets. It is inherited over fork and exec whatever becomes of
/// environment, session and parent, and /proc/<pid>/limits shows it.
///
/// Value   the soft limit is a number made from the job's tag, so large and so odd that no one would choose
///         it.
/// Nested  the launcher inside a worker keeps the hard limit, which is the outer job's number, and chooses a
///         smaller soft one for its own workers: either job finds them. None when the hard limit leaves no
///         room for such a number; processes are then found by other marks alone.
std::optional<rlimit> tag_limit(std::string_view tag, rlimit inherited);

/// Whether `limits`, the text of /proc/<pid>/limits, has `value` as soft or hard limit of file locks.
bool limits_have_tag(std::string_view limits, rlim_t value);

/// limits_have_tag for a process; false when there is no such process.
bool has_limit_tag(pid_t pid, rlim_t value);

}  // namespace ddprun::launcher
