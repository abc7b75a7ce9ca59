#include "launcher/commands/ps.h"

#include "launcher/report/lost_output_json.h"
#include "launcher/text/text.h"
#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>

namespace ddprun::launcher {
namespace {

/// "2 of 3"; where that is not all there is to say, what the launcher does: "restarting", "stopping, 1 of 3".
std::string workers_phrase(const JobFacts& job) {
  std::string count = fmt::format("{} of {}", job.workers.size(), job.local_world_size);
  if (job.phase == "running") return count;
  return job.workers.empty() ? job.phase : fmt::format("{}, {}", job.phase, count);
}

std::string shown(double seconds) { return format_duration(std::chrono::duration<double>(seconds)); }

std::string job_line(const JobFacts& job) {
  std::string text =
      fmt::format("{:<18} {:<9} {:<9} {:<9} {:<8} {:<16} {:<9} {}\n", job.tag, job.launcher, shown(job.age_s),
                  "", "", workers_phrase(job), fmt::format("{} of {}", job.restarts_used, job.max_restarts),
                  printable(shorten(job.command_line, 100)));
  if (!job.log_dir.empty()) text += fmt::format("  logs {}\n", printable(job.log_dir));
  return text;
}

std::string worker_line(const WorkerFacts& worker) {
  const std::string output =
      worker.last_output_s ? fmt::format(", last output {} ago", shown(*worker.last_output_s)) : "";
  return fmt::format("  rank {:<11} {:<9} {:<9} {:<9} {:<8} {}{}\n", worker.rank, worker.pid,
                     shown(worker.age_s), shown(worker.cpu_s), format_bytes(worker.memory), worker.state,
                     output);
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
