#pragma once

#include "launcher/process/process_table.h"
#include "rendezvous/base/clock.h"

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace ddprun::launcher {

/// By what the processes of a job, and what they left in /dev/shm, are found.
struct JobMarks {
  std::string tag;  ///< in their environment
  /// Of file locks (limit_tag.h), as workers are given it; none: no such mark.
  std::optional<rlimit> lock_limit;
  std::string cgroup;          ///< path of the job's own control group; empty: none
  std::string temporary_logs;  ///< its log directory in /tmp; empty: it has none there
  /// Those that workers began; until then, the number was certainly theirs.
  std::map<pid_t, TimePoint> sessions;
  std::set<pid_t> seen;  ///< pids that its processes have had: they may be in names in /dev/shm
  std::chrono::system_clock::time_point started;
  TimePoint born{};  ///< the same moment by our clock: an older process is none of the job
};

/// Whether a process carries a mark of the job: a session that a worker began, the job's limit, the job's
/// control group. Where workers get no such limit, the tag in its environment does; where they do, whoever has
/// the tag alone is a stranger who was given a copy of a worker's environment, by a batch system for instance.
/// Whose child it is says nothing: a launcher inherits children from the shell that became it, and, as the
/// first process of a container, everybody's orphans.
bool is_of_job(const ProcessEntry& process, const JobMarks& marks);

/// Whether a process is in a session that a worker began; `leader` is who has its number now. Where no worker
/// holds that any more, an empty session's may be a stranger's: what was born later, and may carry a better
/// mark, counts by that one alone. Pure.
bool is_in_session(const ProcessEntry& process, const std::optional<ProcessEntry>& leader,
                   const JobMarks& marks);

/// SIGKILL to a process that was `found` to be of the job, if it still is that process: it may have ended
/// meanwhile, and its number be a stranger's. True: sent.
bool kill_found(const ProcessEntry& found, const JobMarks& marks);

/// SIGKILL to the job's processes but this one, again and again until none is found, or none but resource trackers
/// (resource_tracker.h), which are spared until `spare_until`; then removes what PyTorch left in /dev/shm, for nobody
/// else may know all of them. Before each round, with all of them found, it asks whether they `may_go`; it ends when
/// they may not.
void kill_job(JobMarks marks, TimePoint spare_until, const std::function<bool()>& may_go);

/// Whether one of the job's resource trackers is at work in its control group.
bool has_resource_tracker(const std::string& cgroup);

/// For a job whose launcher is gone: sends SIGKILL to its processes but this one, resource trackers last, again and
/// again until nothing has been found for a while, for a process may fork while it is looked for; then
/// removes what PyTorch left in /dev/shm, and temporary log directories with nothing in them.
/// Blocks  up to ten seconds; half a second when there is nothing to do.
void sweep_job(JobMarks marks);

}  // namespace ddprun::launcher
