#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <set>
#include <string>

namespace ddprun::launcher {

/// By what the processes of a job, and what they left in /dev/shm, are found.
struct JobMarks {
  std::string tag;           ///< in their environment
  rlim_t lock_limit = 0;     ///< the soft or hard limit of file locks (limit_tag.h); 0: none
  std::string cgroup;        ///< path of the job's own control group; empty: none
  std::set<pid_t> sessions;  ///< those that running workers began
  std::set<pid_t> seen;      ///< pids that its processes have had: they may be in names in /dev/shm
  std::chrono::system_clock::time_point started;
};

/// Whether one of the job's cleaners (cleaner.h) is at work in its control group.
bool has_cleaner(const std::string& cgroup);

/// For a job whose launcher is gone: sends SIGKILL to its processes but this one, cleaners last, again and
/// again until nothing has been found for a while, for a process may fork while it is looked for; then
/// removes what PyTorch left in /dev/shm. Blocks   up to ten seconds; half a second when there is nothing to
/// do.
void sweep_job(JobMarks marks);

}  // namespace ddprun::launcher
