#pragma once

#include "launcher/report/job_state.h"
#include "launcher/report/own_processes.h"
#include "rendezvous/base/result.h"

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct WorkerFacts {
  int rank = 0;
  int local_rank = 0;
  ProcessFacts process;
  std::string log_dir;  ///< where its stdout.log, stderr.log and error.json are; empty: nowhere
  std::optional<double> last_output_s;  ///< since its log files grew; none where its output goes to no file
};

/// A job of this user on this host: what its launcher publishes, by which it is known, and what /proc shows
/// of its workers. Nothing is written to disk for it, so nothing can be stale.
struct JobFacts {
  pid_t launcher = 0;
  std::string command_line;
  double age_s = 0;
  PublishedJob state;  ///< as it is published, with the pids of `workers` as whoever asks knows them
  std::vector<WorkerFacts> workers;  ///< by rank; those that have ended are not among them
};

/// The jobs among `processes`, the oldest first. Pure.
std::vector<JobFacts> find_jobs(const std::vector<ProcessFacts>& processes);

/// The job that `wanted` names: its tag as `ddprun ps` shows it, the pid of its launcher or of a worker, its
/// --rdzv-id, or nothing where only one job runs. The pid of a job within a job is its launcher's. Pure.
/// Errors  kUnavailable: there is no such job; kUsage: there are several. The message lists them.
Result<JobFacts> the_job(const std::vector<JobFacts>& jobs, const std::string& wanted);

}  // namespace ddprun::launcher
