#include "launcher/process/job_sweep.h"

#include "launcher/process/job_cgroup.h"
#include "launcher/process/limit_tag.h"
#include "launcher/process/process_table.h"

#include <dirent.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string_view>
#include <thread>

namespace ddprun::launcher {
namespace {

bool is_of_job(const ProcessEntry& process, const JobMarks& marks) {
  return marks.sessions.contains(process.session) ||
         (marks.lock_limit != 0 && has_limit_tag(process.pid, marks.lock_limit)) ||
         has_tag(process.pid, marks.tag);
}

}  // namespace

int kill_job_processes(const JobMarks& marks) {
  if (!marks.cgroup.empty()) kill_cgroup(marks.cgroup);
  int killed = 0;
  for (const ProcessEntry& process : read_processes()) {
    if (process.state == 'Z' || process.pid == ::getpid()) continue;
    if (!is_of_job(process, marks)) continue;
    if (::kill(process.pid, SIGKILL) == 0) ++killed;
  }
  return killed;
}

int remove_job_segments(const std::string& job_tag) {
  struct DirCloser {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };
  const std::string root = "/dev/shm";
  const std::unique_ptr<DIR, DirCloser> directory(::opendir(root.c_str()));
  if (!directory) return 0;
  int removed = 0;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (name.find(job_tag) == std::string::npos) continue;
    if (::unlink((root + "/" + name).c_str()) == 0) ++removed;
  }
  return removed;
}

void sweep_job(const JobMarks& marks) {
  using std::chrono::milliseconds;
  constexpr milliseconds kPause(10);
  constexpr int kQuietLooks = 50;   // half a second without a find
  constexpr int kMostLooks = 1000;  // ten seconds: what is left then is stuck in the kernel
  int quiet = 0;
  for (int look = 0; look < kMostLooks && quiet < kQuietLooks; ++look) {
    // Looks are close together while processes die and far apart afterwards.
    quiet = kill_job_processes(marks) == 0 ? quiet + 1 : 0;
    if (quiet == 1) remove_job_segments(marks.tag);
    if (quiet > 5) {
      quiet += 9;
      std::this_thread::sleep_for(9 * kPause);
    }
    std::this_thread::sleep_for(kPause);
  }
  remove_job_segments(marks.tag);
  if (!marks.cgroup.empty()) remove_cgroup(marks.cgroup);
}

}  // namespace ddprun::launcher
