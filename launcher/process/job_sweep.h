#pragma once

#include <sys/types.h>

#include <set>
#include <string>

namespace ddprun::launcher {

/// Sends SIGKILL to every process but this one that belongs to a job whose launcher is gone: its environment
/// carries `job_tag`, or its session is one of `sessions`. Returns how many that were; zombies do not count.
int kill_job_processes(const std::string& job_tag, const std::set<pid_t>& sessions);

/// Removes the files of /dev/shm whose name contains `job_tag`; returns how many.
int remove_job_segments(const std::string& job_tag);

/// Both, again and again until nothing has been found for a while: a process may fork while it is looked for.
/// Blocks   up to ten seconds; half a second when there is nothing to do.
void sweep_job(const std::string& job_tag, const std::set<pid_t>& sessions);

}  // namespace ddprun::launcher
