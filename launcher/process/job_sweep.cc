#include "launcher/process/job_sweep.h"

#include "launcher/process/cleaner.h"
#include "launcher/process/job_cgroup.h"
#include "launcher/process/limit_tag.h"
#include "launcher/process/log_file.h"
#include "launcher/process/process_table.h"
#include "launcher/process/shm_files.h"
#include "rendezvous/base/clock.h"

#include <unistd.h>

#include <csignal>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

bool is_in_session(const ProcessEntry& process, const JobMarks& marks) {
  if (!marks.sessions.contains(process.session)) return false;
  const std::optional<ProcessEntry> leader = read_process(process.session);
  return !leader || leader->started <= marks.sessions_as_of;
}

std::vector<pid_t> job_processes(const JobMarks& marks) {
  std::vector<pid_t> found;
  for (const ProcessEntry& process : read_processes()) {
    if (process.has_ended() || process.pid == ::getpid()) continue;
    if (is_of_job(process, marks)) found.push_back(process.pid);
  }
  return found;
}

constexpr std::chrono::milliseconds kPause(10);
constexpr int kMostLooks = 1000;  // ten seconds: what is left then is stuck in the kernel

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

bool is_of_job(const ProcessEntry& process, const JobMarks& marks) {
  // Both stamps are cut to the tick of a clock; and it spares reading much about most of a machine.
  constexpr std::chrono::milliseconds kTicks(40);
  if (process.started + kTicks < marks.born) return false;
  return is_in_session(process, marks) ||
         (marks.lock_limit != 0 && has_limit_tag(process.pid, marks.lock_limit)) ||
         has_tag(process.pid, marks.tag) ||
         (!marks.cgroup.empty() && is_in_cgroup(process.pid, marks.cgroup));
}

void kill_job(const JobMarks& marks, const std::function<bool()>& may_go) {
  for (int look = 0; look < kMostLooks; ++look) {
    const std::vector<pid_t> found = job_processes(marks);
    if (found.empty() || !may_go()) return;
    for (const pid_t pid : found) ::kill(pid, SIGKILL);
    std::this_thread::sleep_for(kPause);
  }
}

bool has_cleaner(const std::string& cgroup) {
  std::istringstream pids(read_proc_file(cgroup + "/cgroup.procs"));
  for (pid_t pid = 0; pids >> pid;) {
    if (is_cleaner(pid)) return true;
  }
  return false;
}

void sweep_job(JobMarks marks) {
  constexpr std::chrono::milliseconds kQuiet(500);
  constexpr std::chrono::seconds kLongest(10);  // what is left then is stuck in the kernel
  const TimePoint begin = BootClock::now();
  TimePoint last_find = begin;
  int quiet = 0;
  for (TimePoint now = begin; now - begin < kLongest && (quiet < 3 || now - last_find < kQuiet);
       now = BootClock::now()) {
    const Cleaners cleaners = now - begin < kCleanerTime ? Cleaners::kSpared : Cleaners::kKilled;
    if (kill_job_processes(marks, cleaners) == 0) {
      ++quiet;
    } else {
      quiet = 0;
      last_find = now;
    }
    if (quiet == 1) remove_torch_segments(marks.seen, marks.started);
    // Looks are close together while processes die and far apart afterwards.
    std::this_thread::sleep_for(quiet > 5 ? 10 * kPause : kPause);
  }
  remove_torch_segments(marks.seen, marks.started);
  if (!marks.cgroup.empty()) remove_cgroup(marks.cgroup);
  if (!marks.temporary_logs.empty()) remove_empty_log_directories(marks.temporary_logs);
}

}  // namespace ddprun::launcher
