#include "launcher/cleanup/job_sweep.h"

#include "launcher/cleanup/job_cgroup.h"
#include "launcher/cleanup/limit_tag.h"
#include "launcher/cleanup/resource_tracker.h"
#include "launcher/cleanup/shm_files.h"
#include "launcher/output/log_file.h"
#include "launcher/process/process_table.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/read_text.h"

#include <unistd.h>

#include <csignal>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

bool has_job_limit(pid_t pid, const JobMarks& marks) {
  if (!marks.lock_limit) return has_tag(pid, marks.tag);
  const std::string limits = read_limits(pid);
  return limits_have_tag(limits, marks.lock_limit->rlim_cur) ||
         (limits_may_be_inside(limits, *marks.lock_limit) && has_tag(pid, marks.tag));
}

std::vector<ProcessEntry> job_processes(const JobMarks& marks) {
  std::vector<ProcessEntry> found;
  for (ProcessEntry& process : read_processes()) {
    if (process.has_ended() || process.pid == ::getpid()) continue;
    if (is_of_job(process, marks)) found.push_back(std::move(process));
  }
  return found;
}

constexpr std::chrono::milliseconds kPause(10);
constexpr int kMostLooks = 1000;  // ten seconds: what is left then is stuck in the kernel

enum class ResourceTrackers { kSpared, kKilled };

struct Found {
  int all = 0;
  int spared = 0;
};

Found kill_job_processes(JobMarks& marks, ResourceTrackers trackers) {
  const std::vector<ProcessEntry> found = job_processes(marks);
  int spared = 0;
  for (const ProcessEntry& process : found) {
    marks.seen.insert(process.pid);
    if (trackers == ResourceTrackers::kSpared && is_resource_tracker(process.pid)) {
      ++spared;
    } else {
      kill_found(process, marks);
    }
  }
  if (!marks.cgroup.empty() && spared == 0) kill_cgroup(marks.cgroup);
  return {.all = static_cast<int>(found.size()), .spared = spared};
}

}  // namespace

bool is_in_session(const ProcessEntry& process, const std::optional<ProcessEntry>& leader,
                   const JobMarks& marks) {
  const auto session = marks.sessions.find(process.session);
  if (session == marks.sessions.end()) return false;
  if (leader) return leader->started <= session->second;
  return process.started <= session->second || !marks.lock_limit;
}

bool is_of_job(const ProcessEntry& process, const JobMarks& marks) {
  // Both stamps are cut to the tick of a clock; and it spares reading much about most of a machine.
  constexpr std::chrono::milliseconds kTicks(40);
  if (process.started + kTicks < marks.born) return false;
  const bool is_of_session = marks.sessions.contains(process.session) &&
                             is_in_session(process, read_process(process.session), marks);
  return is_of_session || has_job_limit(process.pid, marks) ||
         (!marks.cgroup.empty() && is_in_cgroup(process.pid, marks.cgroup));
}

bool kill_found(const ProcessEntry& found, const JobMarks& marks) {
  return signal_process(found.pid, SIGKILL, [&](const ProcessEntry& process) {
    return process.started == found.started && is_of_job(process, marks);
  });
}

void kill_job(JobMarks marks, TimePoint spare_until, const std::function<bool()>& may_go) {
  for (int look = 0; look < kMostLooks; ++look) {
    std::vector<ProcessEntry> found = job_processes(marks);
    if (!may_go()) return;
    for (const ProcessEntry& process : found) marks.seen.insert(process.pid);
    if (BootClock::now() < spare_until) {
      std::erase_if(found, [](const ProcessEntry& process) { return is_resource_tracker(process.pid); });
    }
    if (found.empty()) break;
    for (const ProcessEntry& process : found) kill_found(process, marks);
    std::this_thread::sleep_for(kPause);
  }
  remove_torch_segments(marks.seen, marks.started);
}

bool has_resource_tracker(const std::string& cgroup) {
  std::istringstream pids(read_text(cgroup + "/cgroup.procs"));
  for (pid_t pid = 0; pids >> pid;) {
    if (is_resource_tracker(pid)) return true;
  }
  return false;
}

void sweep_job(JobMarks marks) {
  constexpr std::chrono::milliseconds kQuiet(500);
  constexpr std::chrono::seconds kLongest(10);  // what is left then is stuck in the kernel
  const TimePoint begin = BootClock::now();
  TimePoint last_find = begin;
  int quiet = 0;
  bool has_removed = false;
  for (TimePoint now = begin; now - begin < kLongest && (quiet < 3 || now - last_find < kQuiet);
       now = BootClock::now()) {
    const ResourceTrackers trackers =
        now - begin < kResourceTrackerTime ? ResourceTrackers::kSpared : ResourceTrackers::kKilled;
    const Found found = kill_job_processes(marks, trackers);
    const bool can_remove = found.all == found.spared;
    if (can_remove && !has_removed) remove_torch_segments(marks.seen, marks.started);
    has_removed = can_remove;
    if (found.all == 0) {
      ++quiet;
    } else {
      quiet = 0;
      last_find = now;
    }
    // Looks are close together while processes die and far apart afterwards.
    std::this_thread::sleep_for(quiet > 5 ? 10 * kPause : kPause);
  }
  remove_torch_segments(marks.seen, marks.started);
  if (!marks.cgroup.empty()) remove_cgroup(marks.cgroup);
  if (!marks.temporary_logs.empty()) remove_empty_log_directories(marks.temporary_logs);
}

}  // namespace ddprun::launcher
