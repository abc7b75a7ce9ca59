#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
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

/// tag_limit for what this process starts; none, too, where the kernel (that of a sandbox) does not take such
/// a limit or does not show it.
std::optional<rlimit> usable_tag_limit(std::string_view tag);

/// Whether `limits`, the text of /proc/<pid>/limits, has `value` as soft or hard limit of file locks.
bool limits_have_tag(std::string_view limits, rlim_t value);

/// Whether `limits` may be those of a job inside a job inside that whose workers have `mark`: of the three
/// numbers they keep the outermost as hard limit, and the innermost.
bool limits_may_be_inside(std::string_view limits, const rlimit& mark);

/// /proc/<pid>/limits; empty when there is no such process.
std::string read_limits(pid_t pid);

}  // namespace ddprun::launcher
