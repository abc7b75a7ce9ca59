#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <set>
#include <string>

namespace ddprun::launcher {

/// By what the processes of a job are found once its launcher is gone.
struct JobMarks {
  std::string tag;           ///< in their environment, and in the names of segments
  rlim_t lock_limit = 0;     ///< the soft or hard limit of file locks (limit_tag.h); 0: none
  std::string cgroup;        ///< path of the job's own control group; empty: none
  std::set<pid_t> sessions;  ///< those that running workers began
};

/// Sends SIGKILL to every process but this one that belongs to a job whose launcher is gone: its environment
/// or its limits carry the tag, or its session or control group is the job's. Returns how many were found,
/// not counting zombies and what only the control group held.
int kill_job_processes(const JobMarks& marks);

/// Removes the files of /dev/shm whose name contains `job_tag`; returns how many.
int remove_job_segments(const std::string& job_tag);

/// Both, again and again until nothing has been found for a while: a process may fork while it is looked for.
/// Blocks   up to ten seconds; half a second when there is nothing to do.
void sweep_job(const JobMarks& marks);

}  // namespace ddprun::launcher
