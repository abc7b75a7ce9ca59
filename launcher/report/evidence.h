#pragma once

#include "launcher/report/diagnosis.h"
#include "rendezvous/base/exit_status.h"
#include "rendezvous/base/unique_fd.h"

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// The kernel's log, where this process may read it and its pids are those of the log.
std::string kernel_log_file();

/// Sees the out-of-memory kills of a generation: not those before, of whoever had the same pid, or was in our
/// cgroup.
class OomWatch {
 public:
  /// `log_file` is as of /dev/kmsg; empty: none.
  explicit OomWatch(const std::string& log_file = kernel_log_file());

  /// What has happened so far concerns nobody.
  void begin_generation();
  /// Whether our cgroup had one since.
  [[nodiscard]] bool has_killed() const;
  /// The kernel's sentence about that of `pid` since, or empty.
  [[nodiscard]] std::string sentence_about(pid_t pid);

 private:
  std::string counter_file_;  ///< memory.events (v2) or memory.oom_control (v1); empty: neither is there
  std::uint64_t kills_before_ = 0;
  UniqueFd log_;            ///< at what has not been read
  std::string log_so_far_;  ///< what has been read of it since
};

/// How full /dev/shm is, and which file system of `job_directories`: to be asked at a worker's end, before
/// what it held is free again.
Evidence look_at_space(const std::vector<std::string>& job_directories);

/// Adds to it what the kernel tells about a worker's end: a few small files, and the kernel log only after a
/// SIGKILL.
Evidence gather_evidence(const ExitStatus& status, pid_t pid, OomWatch& oom, Evidence space);

/// The kernel's sentence about the out-of-memory kill of `pid` in its log, or empty. Pure.
std::string find_oom_kill(std::string_view kernel_log, pid_t pid);

}  // namespace ddprun::launcher
