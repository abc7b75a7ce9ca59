#include "launcher/commands/ps.h"

#include "launcher/report/lost_output_json.h"
#include "launcher/text/text.h"
#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <string_view>

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

/// "2 of 3"; where that is not all there is to say, what the launcher does: "restarting", "stopping, 1 of 3".
std::string workers_phrase(const JobFacts& job) {
  std::string count = fmt::format("{} of {}", job.workers.size(), job.state.local_world_size);
  if (job.state.phase == "running") return count;
  return job.workers.empty() ? job.state.phase : fmt::format("{}, {}", job.state.phase, count);
}

std::string shown(double seconds) { return format_duration(std::chrono::duration<double>(seconds)); }

std::string job_line(const JobFacts& job) {
  std::string text = fmt::format("{:<18} {:<9} {:<9} {:<9} {:<8} {:<16} {:<9} {}\n", job.state.tag,
                                 job.launcher, shown(job.age_s), "", "", workers_phrase(job),
                                 fmt::format("{} of {}", job.state.restarts_used, job.state.max_restarts),
                                 printable(shorten(job.command_line, 100)));
  if (!job.state.log_dir.empty()) text += fmt::format("  logs {}\n", printable(job.state.log_dir));
  return text;
}

std::string worker_line(const WorkerFacts& worker) {
  const std::string output =
      worker.last_output_s ? fmt::format(", last output {} ago", shown(*worker.last_output_s)) : "";
  return fmt::format("  rank {:<11} {:<9} {:<9} {:<9} {:<8} {}{}\n", worker.rank, worker.process.pid,
                     shown(worker.process.age_s), shown(worker.process.cpu_s),
                     format_bytes(worker.process.memory), worker_state(worker.process.state), output);
}

}  // namespace

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
                         {"pid", worker.process.pid},
                         {"state", worker_state(worker.process.state)},
                         {"age_s", worker.process.age_s},
                         {"cpu_s", worker.process.cpu_s},
                         {"memory_bytes", worker.process.memory},
                         {"log_dir", or_null(worker.log_dir)},
                         {"last_output_s", worker.last_output_s ? Json(*worker.last_output_s) : Json()}});
    }
    array.push_back({{"job", job.state.tag},
                     {"run_id", job.state.run_id},
                     {"launcher_pid", job.launcher},
                     {"command", job.command_line},
                     {"phase", or_null(job.state.phase)},
                     {"log_dir", or_null(job.state.log_dir)},
                     {"age_s", job.age_s},
                     {"local_world_size", job.state.local_world_size},
                     {"world_size", job.state.world_size},
                     {"restart_count", job.state.restart_count},
                     {"restarts_used", job.state.restarts_used},
                     {"max_restarts", job.state.max_restarts},
                     {"workers", std::move(workers)}});
  }
  return array.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun::launcher
