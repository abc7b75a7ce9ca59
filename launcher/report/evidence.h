#pragma once

#include "launcher/process/exit_status.h"
#include "launcher/report/diagnosis.h"

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// Remembers how many out-of-memory kills our cgroup had when the job started, so that an old one is not
/// blamed.
class OomWatch {
 public:
  OomWatch();
  /// Whether one was added since.
  [[nodiscard]] bool has_killed() const;

 private:
  std::string counter_file_;  ///< memory.events (v2) or memory.oom_control (v1); empty: neither is there
  std::uint64_t kills_at_start_ = 0;
};

/// How full /dev/shm is, and which file system of `job_directories`: to be asked at a worker's end, before
/// what it held is free again.
Evidence look_at_space(const std::vector<std::string>& job_directories);

/// Adds to it what the kernel tells about a worker's end: a few small files, and the kernel log only after a
/// SIGKILL.
Evidence gather_evidence(const ExitStatus& status, pid_t pid, const OomWatch& oom, Evidence space);

/// The kernel's sentence about the out-of-memory kill of `pid` in its log, or empty. Pure.
std::string find_oom_kill(std::string_view kernel_log, pid_t pid);

/// The value after `name` at the start of a line of `text`, as in "oom_kill 3"; 0 when it is not there. Pure.
std::uint64_t counter_named(std::string_view text, std::string_view name);

}  // namespace ddprun::launcher
