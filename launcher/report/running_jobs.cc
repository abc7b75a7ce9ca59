#include "launcher/report/running_jobs.h"

#include "launcher/text/text.h"
#include "rendezvous/base/shell_quote.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace ddprun::launcher {
namespace {

bool goes_by(const JobFacts& job, const std::string& wanted) {
  return wanted.empty() || wanted == std::to_string(job.launcher) || wanted == job.state.tag ||
         (wanted == job.state.run_id && !job.state.run_id.empty());
}

bool has_worker(const JobFacts& job, const std::string& wanted) {
  return std::any_of(job.workers.begin(), job.workers.end(),
                     [&](const WorkerFacts& worker) { return wanted == std::to_string(worker.process.pid); });
}

std::string list_of(const std::vector<JobFacts>& jobs) {
  std::string text;
  for (const JobFacts& job : jobs) {
    text +=
        fmt::format("\n  {:<20} pid {:<8} {}", job.state.tag, job.launcher, shorten(job.command_line, 80));
  }
  return text;
}

}  // namespace

std::vector<JobFacts> find_jobs(const std::vector<ProcessFacts>& processes) {
  std::vector<JobFacts> jobs;
  for (const ProcessFacts& launcher : processes) {
    if (launcher.job_state.empty() || launcher.state == 'Z') continue;
    std::optional<PublishedJob> state = parse_job_state(launcher.job_state);
    // Between fork and exec a worker has its launcher's descriptors.
    if (!state || state->launcher != launcher.own_pid) continue;
    const std::vector<pid_t> own_pids =
        std::exchange(state->workers, std::vector<pid_t>(state->workers.size()));
    JobFacts job{.launcher = launcher.pid,
                 .command_line = shell_quote(launcher.arguments),
                 .age_s = launcher.age_s,
                 .state = std::move(*state),
                 .workers = {}};
    for (const ProcessFacts& process : processes) {
      if (process.parent != launcher.pid) continue;
      const auto pid = std::find(own_pids.begin(), own_pids.end(), process.own_pid);
      if (pid == own_pids.end()) continue;
      const int local_rank = static_cast<int>(pid - own_pids.begin());
      job.state.workers[static_cast<std::size_t>(local_rank)] = process.pid;
      const std::string& logs = job.state.log_dir;
      job.workers.push_back({.rank = job.state.base_rank + local_rank,
                             .local_rank = local_rank,
                             .process = process,
                             .log_dir = logs.empty() ? "" : fmt::format("{}/{}", logs, local_rank),
                             .last_output_s = {}});
    }
    std::sort(job.workers.begin(), job.workers.end(),
              [](const auto& a, const auto& b) { return a.rank < b.rank; });
    jobs.push_back(std::move(job));
  }
  std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) { return a.age_s > b.age_s; });
  return jobs;
}

Result<JobFacts> the_job(const std::vector<JobFacts>& jobs, const std::string& wanted) {
  if (jobs.empty()) return Error(ErrorCode::kUnavailable, "no job of yours runs on this host");
  const bool is_launcher = std::any_of(
      jobs.begin(), jobs.end(), [&](const JobFacts& job) { return wanted == std::to_string(job.launcher); });
  std::vector<JobFacts> meant;
  std::copy_if(jobs.begin(), jobs.end(), std::back_inserter(meant), [&](const JobFacts& job) {
    return goes_by(job, wanted) || (!is_launcher && has_worker(job, wanted));
  });
  if (meant.size() == 1) return std::move(meant.front());
  if (meant.empty()) {
    return Error(ErrorCode::kUnavailable, fmt::format("no job \"{}\" on this host; your jobs here:{}",
                                                      printable(wanted), list_of(jobs)));
  }
  return Error(ErrorCode::kUsage,
               fmt::format("{} of your jobs on this host {}; name one by its tag:{}", meant.size(),
                           wanted.empty() ? "could be meant" : fmt::format("go by \"{}\"", printable(wanted)),
                           list_of(meant)));
}

}  // namespace ddprun::launcher
