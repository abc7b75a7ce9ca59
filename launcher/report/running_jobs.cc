#include "launcher/report/running_jobs.h"

#include "launcher/report/job_state.h"
#include "rendezvous/base/shell_quote.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace ddprun::launcher {
namespace {

std::string_view worker_state(char state) {
  switch (state) {
    case 'R':
    case 'S':
    case 'I':
      return "running";
    case 'D':
      return "in disk sleep";
    case 'T':
      return "stopped";
    case 't':
      return "traced";
    case 'Z':
    case 'X':
      return "ended";
    default:
      return "unknown";
  }
}

WorkerFacts worker_facts(const ProcessFacts& process, int rank, int local_rank) {
  return {.rank = rank,
          .local_rank = local_rank,
          .pid = process.pid,
          .state = std::string(worker_state(process.state)),
          .age_s = process.age_s,
          .cpu_s = process.cpu_s,
          .memory = process.memory,
          .log_dir = {},
          .last_output_s = {}};
}

JobFacts job_facts(const PublishedJob& state, const ProcessFacts& launcher) {
  return {.tag = state.tag,
          .run_id = state.run_id,
          .launcher = launcher.pid,
          .command_line = shell_quote(launcher.arguments),
          .phase = state.phase,
          .log_dir = state.log_dir,
          .age_s = launcher.age_s,
          .local_world_size = state.local_world_size,
          .world_size = state.world_size,
          .restart_count = state.restart_count,
          .restarts_used = state.restarts_used,
          .max_restarts = state.max_restarts,
          .workers = {}};
}

}  // namespace

std::vector<JobFacts> find_jobs(const std::vector<ProcessFacts>& processes) {
  std::vector<JobFacts> jobs;
  for (const ProcessFacts& launcher : processes) {
    if (launcher.job_state.empty() || launcher.state == 'Z') continue;
    const std::optional<PublishedJob> state = parse_job_state(launcher.job_state);
    // Between fork and exec a worker has its launcher's descriptors.
    if (!state || state->launcher != launcher.own_pid) continue;
    JobFacts job = job_facts(*state, launcher);
    for (const ProcessFacts& process : processes) {
      if (process.parent != launcher.pid) continue;
      const auto pid = std::find(state->workers.begin(), state->workers.end(), process.own_pid);
      if (pid == state->workers.end()) continue;
      const int local_rank = static_cast<int>(pid - state->workers.begin());
      job.workers.push_back(worker_facts(process, state->base_rank + local_rank, local_rank));
      WorkerFacts& worker = job.workers.back();
      if (!job.log_dir.empty()) worker.log_dir = fmt::format("{}/{}", job.log_dir, worker.local_rank);
    }
    std::sort(job.workers.begin(), job.workers.end(),
              [](const auto& a, const auto& b) { return a.rank < b.rank; });
    jobs.push_back(std::move(job));
  }
  std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) { return a.age_s > b.age_s; });
  return jobs;
}

}  // namespace ddprun::launcher
