#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <set>
#include <string>

namespace ddprun::launcher {

/// By what the processes of a job, and what they left in /dev/shm, are found once its launcher is gone.
struct JobMarks {
  std::string tag;           ///< in their environment, and in the names of segments
  rlim_t lock_limit = 0;     ///< the soft or hard limit of file locks (limit_tag.h); 0: none
  std::string cgroup;        ///< path of the job's own control group; empty: none
  std::set<pid_t> sessions;  ///< those that running workers began
  std::set<pid_t> workers;   ///< all that ever ran
  std::chrono::system_clock::time_point started;
  std::set<ino_t> segments;  ///< files of /dev/shm that the job's processes were seen to hold
  std::set<ino_t> others;    ///< files that could be the job's and that none of its processes held
};

enum class SegmentLook { kAtNewFiles, kAtAll };

/// Adds to `marks.segments` what the job's living processes map or hold open in /dev/shm now, and to `others`
/// what they do not. Costs next to nothing when there is no file to look at; true when a segment was added.
bool note_job_segments(JobMarks& marks, SegmentLook look);

/// Removes from /dev/shm what the job made (is_made_by of shm_files.h) and no living process still holds.
void remove_job_segments(const JobMarks& marks);

/// Whether one of the job's cleaners (cleaner.h) is at work in its control group.
bool has_cleaner(const std::string& cgroup);

/// For a job whose launcher is gone: notes its segments, sends SIGKILL to its processes but this one,
/// cleaners last, and removes its segments; again and again until nothing has been found for a while: a
/// process may fork while it is looked for. Blocks   up to ten seconds; half a second when there is nothing
/// to do.
void sweep_job(JobMarks marks);

}  // namespace ddprun::launcher
