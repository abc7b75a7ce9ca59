#include "launcher/commands/ps.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <optional>

namespace ddprun::launcher {
namespace {

/// Seconds since a worker's log file grew; none if there is no such file, or nothing in it.
std::optional<double> seconds_since_growth(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || status.st_size == 0) return std::nullopt;
  const std::chrono::duration<double> written =
      std::chrono::seconds(status.st_mtim.tv_sec) + std::chrono::nanoseconds(status.st_mtim.tv_nsec);
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return std::max(0.0, (now - written).count());
}

}  // namespace

void read_last_output(std::vector<JobFacts>& jobs) {
  for (JobFacts& job : jobs) {
    for (WorkerFacts& worker : job.workers) {
      for (const char* name : {"/stdout.log", "/stderr.log"}) {
        const std::optional<double> since = seconds_since_growth(worker.log_dir + name);
        if (since) worker.last_output_s = std::min(*since, worker.last_output_s.value_or(*since));
      }
    }
  }
}

}  // namespace ddprun::launcher
