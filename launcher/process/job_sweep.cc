#include "launcher/process/job_sweep.h"

#include "launcher/process/cleaner.h"
#include "launcher/process/job_cgroup.h"
#include "launcher/process/limit_tag.h"
#include "launcher/process/process_table.h"
#include "launcher/process/shm_files.h"
#include "rendezvous/base/clock.h"

#include <unistd.h>

#include <csignal>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

bool is_of_job(const ProcessEntry& process, const JobMarks& marks) {
  return marks.sessions.contains(process.session) ||
         (marks.lock_limit != 0 && has_limit_tag(process.pid, marks.lock_limit)) ||
         has_tag(process.pid, marks.tag);
}

std::vector<pid_t> job_processes(const JobMarks& marks) {
  std::vector<pid_t> found;
  for (const ProcessEntry& process : read_processes()) {
    if (process.state == 'Z' || process.pid == ::getpid()) continue;
    if (is_of_job(process, marks)) found.push_back(process.pid);
  }
  return found;
}

enum class Cleaners { kSpared, kKilled };

// Returns how many were found, those spared included.
int kill_job_processes(JobMarks& marks, Cleaners cleaners) {
  const std::vector<pid_t> found = job_processes(marks);
  marks.seen.insert(found.begin(), found.end());
  bool spared = false;
  for (const pid_t pid : found) {
    if (cleaners == Cleaners::kSpared && is_cleaner(pid)) {
      spared = true;
    } else {
      ::kill(pid, SIGKILL);
    }
  }
  if (!marks.cgroup.empty() && !spared) kill_cgroup(marks.cgroup);
  return static_cast<int>(found.size());
}

}  // namespace

bool has_cleaner(const std::string& cgroup) {
  std::istringstream pids(read_proc_file(cgroup + "/cgroup.procs"));
  for (pid_t pid = 0; pids >> pid;) {
    if (is_cleaner(pid)) return true;
  }
  return false;
}

void sweep_job(JobMarks marks) {
  using std::chrono::milliseconds;
  constexpr milliseconds kPause(10);
  constexpr int kQuietLooks = 50;   // half a second without a find
  constexpr int kMostLooks = 1000;  // ten seconds: what is left then is stuck in the kernel
  const BootClock::time_point cleaners_end = BootClock::now() + kCleanerTime;
  int quiet = 0;
  for (int look = 0; look < kMostLooks && quiet < kQuietLooks; ++look) {
    // Looks are close together while processes die and far apart afterwards.
    const Cleaners cleaners = BootClock::now() < cleaners_end ? Cleaners::kSpared : Cleaners::kKilled;
    quiet = kill_job_processes(marks, cleaners) == 0 ? quiet + 1 : 0;
    if (quiet == 1) remove_torch_segments(marks.seen, marks.started);
    if (quiet > 5) {
      quiet += 9;
      std::this_thread::sleep_for(9 * kPause);
    }
    std::this_thread::sleep_for(kPause);
  }
  remove_torch_segments(marks.seen, marks.started);
  if (!marks.cgroup.empty()) remove_cgroup(marks.cgroup);
}

}  // namespace ddprun::launcher
