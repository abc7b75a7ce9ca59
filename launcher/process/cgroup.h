#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// The control group of a process in the hierarchy of `controller` ("" is version 2), as /proc/<pid>/cgroup tells:
/// "/user.slice/…". Empty: none.
std::string cgroup_of(pid_t pid, std::string_view controller);

/// Where `file` of a process's control group is, in version 2 or with `controller` in version 1; empty: nowhere. In a
/// container the group's path is often the host's while the group is mounted at the root, where it is looked for next.
std::string find_cgroup_file(pid_t pid, std::string_view controller, const std::string& file);

/// What `file` of our own group of version 2 holds, or of one above it: whichever begins with the smallest number.
/// None: none of them has a limit.
std::optional<std::string> tightest_cgroup_line(const std::string& file);

/// The bytes that our group may use, in either version; none: as many as there are.
std::optional<std::uint64_t> cgroup_memory_limit();

}  // namespace ddprun::launcher
