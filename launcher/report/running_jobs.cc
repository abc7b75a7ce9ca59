#include "launcher/report/running_jobs.h"

#include "rendezvous/base/shell_quote.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ddprun::launcher {

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

}  // namespace ddprun::launcher
