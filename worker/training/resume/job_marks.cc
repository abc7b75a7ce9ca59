#include "worker/training/resume/job_marks.h"

#include "rendezvous/base/env_contract.h"
#include "worker/runtime/comm/shm/peer_watch.h"
#include <ddprun/collectives.h>

#include <fmt/format.h>
#include <unistd.h>

#include <string>

namespace ddprun::training {
namespace {

std::string given(std::string_view name) { return process_env(name).value_or(""); }

/// ddprun says who it is; of torchrun it is the process, which lives as long as the job's workers are restarted.
std::string launcher() {
  if (const std::string tag = given(env_name::kJobTag); !tag.empty()) return tag;
  const pid_t parent = ::getppid();
  const auto started = runtime::shm::start_time_of(parent);
  const Result<std::string> host = runtime::shm::host_key();
  if (!started || !*started || !host) return {};
  return fmt::format("{}/{}/{}", *host, parent, **started);
}

}  // namespace

JobMarks marks_of(const Context& context) {
  return {.slurm_job = given("SLURM_JOB_ID"),
          .slurm_restarts = given("SLURM_RESTART_COUNT"),
          .coordinator = given(env_name::kCoordinator),
          .launchers = all_gather_bytes(context, launcher()),
          .restarts = context.restart_count()};
}

}  // namespace ddprun::training
