#include "launcher/ps.h"

#include "launcher/cli_commands.h"
#include "launcher/job_state.h"
#include "launcher/report/lost_output_json.h"
#include "launcher/report/text.h"
#include "launcher/shell_quote.h"
#include "rendezvous/base/env_contract.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace ddprun::launcher {
namespace {

std::string variable(const ProcessFacts& process, std::string_view name) {
  for (const std::string& line : process.environment) {
    if (line.size() > name.size() && line[name.size()] == '=' && line.compare(0, name.size(), name) == 0) {
      return line.substr(name.size() + 1);
    }
  }
  return {};
}

int number(const ProcessFacts& process, std::string_view name) {
  return std::atoi(variable(process, name).c_str());
}

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

/// A `ddprun` that runs a job, as far as its own command line tells.
bool is_launcher(const ProcessFacts& process) {
  if (process.command != "ddprun" || process.arguments.empty() || process.state == 'Z') return false;
  const std::string first = process.arguments.size() > 1 ? process.arguments[1] : std::string();
  return !is_command(first);
}

/// The launcher's guard carries the launcher's environment, so within a job of another ddprun it looks like a
/// worker.
bool is_worker_of(const ProcessFacts& process, pid_t launcher) {
  return process.parent == launcher && process.command != "job-guard" &&
         !variable(process, env_name::kJobTag).empty() && !variable(process, env_name::kRank).empty();
}

/// Of a job within a job the tag is "outer:inner".
std::string own_tag(const std::string& tags) { return tags.substr(tags.rfind(':') + 1); }

WorkerFacts worker_facts(const ProcessFacts& process) {
  return {.rank = number(process, env_name::kRank),
          .local_rank = number(process, env_name::kLocalRank),
          .pid = process.pid,
          .state = std::string(worker_state(process.state)),
          .age_s = process.age_s,
          .cpu_s = process.cpu_s,
          .memory = process.memory,
          .log_dir = {},
          .last_output_s = {}};
}

/// "2 of 3"; where that is not all there is to say, what the launcher does: "restarting", "stopping, 1 of 3".
std::string workers_phrase(const JobFacts& job) {
  const std::string count = fmt::format("{} of {}", job.workers.size(), job.local_world_size);
  if (job.phase.empty()) return job.workers.empty() ? "no worker now" : count;
  if (job.phase == "running") return count;
  return job.workers.empty() ? job.phase : fmt::format("{}, {}", job.phase, count);
}

std::string job_line(const JobFacts& job) {
  std::string text =
      fmt::format("{:<18} {:<9} {:<9} {:<9} {:<8} {:<16} {:<9} {}\n", job.tag.empty() ? "-" : job.tag,
                  job.launcher, format_seconds(job.age_s), "", "", workers_phrase(job),
                  fmt::format("{} of {}", job.restarts_used, job.max_restarts),
                  printable(shorten(job.command_line, 100)));
  if (!job.log_dir.empty()) text += fmt::format("  logs {}\n", printable(job.log_dir));
  return text;
}

std::string worker_line(const WorkerFacts& worker) {
  const std::string output =
      worker.last_output_s ? fmt::format(", last output {} ago", format_seconds(*worker.last_output_s)) : "";
  return fmt::format("  rank {:<11} {:<9} {:<9} {:<9} {:<8} {}{}\n", worker.rank, worker.pid,
                     format_seconds(worker.age_s), format_seconds(worker.cpu_s), format_bytes(worker.memory),
                     worker.state, output);
}

/// What the launcher says of its job, where its workers do not say otherwise.
void take_published(JobFacts& job, const ProcessFacts& launcher) {
  const std::optional<JobState> state = parse_job_state(launcher.job_state);
  if (!state) return;
  job.tag = state->tag;
  job.run_id = state->run_id;
  job.phase = state->phase;
  job.log_dir = state->log_dir;
  job.local_world_size = state->local_world_size;
  job.world_size = state->world_size;
  job.restart_count = state->restart_count;
  job.restarts_used = state->restarts_used;
  job.max_restarts = state->max_restarts;
}

void take_from_worker(JobFacts& job, const ProcessFacts& process) {
  job.tag = own_tag(variable(process, env_name::kJobTag));
  job.run_id = variable(process, env_name::kRunId);
  job.log_dir = variable(process, env_name::kLogDir);
  job.local_world_size = number(process, env_name::kLocalWorldSize);
  job.world_size = number(process, env_name::kWorldSize);
  job.restart_count = number(process, env_name::kRestartCount);
  job.restarts_used = job.restart_count;
  job.max_restarts = number(process, env_name::kMaxRestarts);
}

}  // namespace

std::vector<JobFacts> find_jobs(const std::vector<ProcessFacts>& processes, pid_t self) {
  std::vector<JobFacts> jobs;
  for (const ProcessFacts& launcher : processes) {
    if (!is_launcher(launcher) || launcher.pid == self) continue;
    JobFacts job;
    job.launcher = launcher.pid;
    job.command_line = shell_quote(launcher.arguments);
    job.age_s = launcher.age_s;
    take_published(job, launcher);
    for (const ProcessFacts& process : processes) {
      if (!is_worker_of(process, launcher.pid)) continue;
      if (job.phase.empty()) take_from_worker(job, process);
      job.workers.push_back(worker_facts(process));
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

std::string render_jobs(const std::vector<JobFacts>& jobs) {
  if (jobs.empty()) return "no job of yours runs on this host\n";
  std::string text = fmt::format("{:<18} {:<9} {:<9} {:<9} {:<8} {:<16} {:<9} {}\n", "JOB", "PID", "AGE",
                                 "CPU", "MEMORY", "WORKERS", "RESTARTS", "COMMAND");
  for (const JobFacts& job : jobs) {
    text += job_line(job);
    for (const WorkerFacts& worker : job.workers) text += worker_line(worker);
  }
  return text;
}

std::string jobs_json(const std::vector<JobFacts>& jobs) {
  using Json = nlohmann::ordered_json;
  Json array = Json::array();
  for (const JobFacts& job : jobs) {
    Json workers = Json::array();
    for (const WorkerFacts& worker : job.workers) {
      workers.push_back({{"rank", worker.rank},
                         {"local_rank", worker.local_rank},
                         {"pid", worker.pid},
                         {"state", worker.state},
                         {"age_s", worker.age_s},
                         {"cpu_s", worker.cpu_s},
                         {"memory_bytes", worker.memory},
                         {"log_dir", or_null(worker.log_dir)},
                         {"last_output_s", worker.last_output_s ? Json(*worker.last_output_s) : Json()}});
    }
    array.push_back({{"job", job.tag},
                     {"run_id", job.run_id},
                     {"launcher_pid", job.launcher},
                     {"command", job.command_line},
                     {"phase", or_null(job.phase)},
                     {"log_dir", or_null(job.log_dir)},
                     {"age_s", job.age_s},
                     {"local_world_size", job.local_world_size},
                     {"world_size", job.world_size},
                     {"restart_count", job.restart_count},
                     {"restarts_used", job.restarts_used},
                     {"max_restarts", job.max_restarts},
                     {"workers", std::move(workers)}});
  }
  return array.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun::launcher
