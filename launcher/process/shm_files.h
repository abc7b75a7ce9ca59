#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// A file of /dev/shm.
struct ShmFile {
  std::string name;
  ino_t inode = 0;
  uid_t owner = 0;
  std::optional<std::chrono::system_clock::time_point> born;  ///< none where the kernel does not say
};

/// Now, by the clock that the kernel stamps files with; it moves in ticks of some milliseconds.
std::chrono::system_clock::time_point file_clock_now();

/// All of them; empty where there is no /dev/shm.
std::vector<ShmFile> list_shm_files();

/// Inodes of the files of /dev/shm in the text of /proc/<pid>/maps. Pure.
std::set<ino_t> mapped_shm_files(std::string_view maps);

/// Inodes of the files of /dev/shm that a process maps or holds open; empty when it may not be looked at.
std::set<ino_t> held_shm_files(pid_t pid);

/// What is known about a job when it is asked which files it made.
struct ShmEvidence {
  std::string_view job_tag;
  uid_t user = 0;
  std::chrono::system_clock::time_point started;  ///< of the job
  const std::set<pid_t>& pids;                    ///< its workers
  const std::set<ino_t>& held;                    ///< what its processes were seen to hold
};

/// Whether the job could have made the file: it is our user's, and was born after the job's start. Pure.
bool is_candidate(const ShmFile& file, const ShmEvidence& evidence);

/// Whether the job made the file: it is named for the job, or it is a candidate and one of the job's
/// processes held it, or its name's first number is a worker's pid (torch_4711_…). Pure.
///
/// A file of which none of that is known is kept: another program of the same user may have made it.
bool is_made_by(const ShmFile& file, const ShmEvidence& evidence);

}  // namespace ddprun::launcher
