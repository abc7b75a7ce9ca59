#include "worker/models/summary.h"

#include "rendezvous/base/exit_codes.h"
#include "worker/commands/commands.h"
#include "worker/commands/opened_job.h"
#include "worker/commands/output.h"

namespace ddprun::commands {

int run_summary(const config::JobCommandLine& line) {
  const OpenedJob job = open_job(line, "cpu");
  print(models::summary(job.model(), job.shape()));
  return exit_code::kOk;
}

}  // namespace ddprun::commands
