#include "launcher/commands/ps.h"
#include "launcher/watch/sampler.h"

#include <algorithm>
#include <optional>

namespace ddprun::launcher {

void read_last_output(std::vector<JobFacts>& jobs) {
  for (JobFacts& job : jobs) {
    for (WorkerFacts& worker : job.workers) {
      for (const char* name : {"/stdout.log", "/stderr.log"}) {
        const std::optional<double> since = watch::seconds_since_growth(worker.log_dir + name);
        if (since) worker.last_output_s = std::min(*since, worker.last_output_s.value_or(*since));
      }
    }
  }
}

}  // namespace ddprun::launcher
