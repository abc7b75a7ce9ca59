#pragma once

#include "launcher/report/own_processes.h"

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct WorkerFacts {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;
  std::string state;  ///< "running", "in disk sleep", "stopped", "ended"
  double age_s = 0;
  double cpu_s = 0;
  std::uint64_t memory = 0;
  std::string log_dir;  ///< where its stdout.log, stderr.log and error.json are; empty: nowhere
  std::optional<double> last_output_s;  ///< since its log files grew; none where its output goes to no file
};

/// A job of this user on this host: what its launcher publishes, by which it is known, and what /proc shows
/// of its workers. Nothing is written to disk for it, so nothing can be stale.
struct JobFacts {
  std::string tag;
  std::string run_id;
  pid_t launcher = 0;
  std::string command_line;
  std::string phase;    ///< "running" and the others of PublishedJob
  std::string log_dir;  ///< of this generation; empty: none
  double age_s = 0;
  int local_world_size = 0;
  int world_size = 0;
  int restart_count = 0;
  int restarts_used = 0;
  int max_restarts = 0;
  std::vector<WorkerFacts> workers;  ///< by rank; those that have ended are not among them
};

/// The jobs among `processes`, the oldest first. Pure.
std::vector<JobFacts> find_jobs(const std::vector<ProcessFacts>& processes);

}  // namespace ddprun::launcher
