#pragma once

#include "launcher/report/last_words.h"
#include "rendezvous/base/exit_status.h"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::launcher {

/// What the machine can tell about a worker's end; gathered by evidence.h, invented by tests.
struct Evidence {
  std::string hang;                 ///< why ddprun itself ended it (--hang-timeout)
  std::optional<int> passed_on;     ///< a signal that the launcher got last and passed on to its workers
  std::string oom_kernel_line;      ///< the kernel log's line about this pid, where it can be read
  bool oom_kill_in_cgroup = false;  ///< our cgroup counted an out-of-memory kill since the job started
  std::uint64_t memory_limit = 0;   ///< of the cgroup, in bytes; 0: none
  std::uint64_t cpu_limit = 0;      ///< seconds of CPU time, at whose end the kernel sends SIGKILL; 0: none
  std::uint64_t shm_size = 0;       ///< of /dev/shm
  std::uint64_t shm_free = 0;
  std::string full_disk;     ///< "/data (200 GiB)": a file system of the job without a free byte
  std::string core_pattern;  ///< /proc/sys/kernel/core_pattern
};

/// The root cause in words a user can act on: "out of memory: …", "segmentation fault: …". Made from how the
/// process ended, what it last said, and what the machine knows; nullopt where that adds nothing to the exit
/// code. What the process survived is no cause of it: an exception that it printed earlier is only mentioned,
/// with how much earlier, and what was printed before an exception that it died of is not looked at.
std::optional<std::string> diagnose(const ExitStatus& status, const LastWords& words,
                                    const Evidence& evidence);

}  // namespace ddprun::launcher
