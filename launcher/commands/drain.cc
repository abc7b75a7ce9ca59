#include "launcher/commands/drain.h"

#include "launcher/agent/agent.h"
#include "launcher/cli/reply.h"
#include "launcher/process/pidfd.h"
#include "launcher/process/process_table.h"
#include "launcher/report/running_jobs.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/print.h"
#include "rendezvous/base/unique_fd.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

int cannot_drain(std::string why) {
  return refuse_in_lines("ddprun drain", Error(ErrorCode::kUnavailable, std::move(why)));
}

/// SIGTERM with kDrainValue to exactly the process behind `pidfd`.
bool ask(const UniqueFd& pidfd) {
  siginfo_t info{};
  info.si_signo = SIGTERM;
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_int = kDrainValue;
  return signal_pidfd(pidfd, SIGTERM, &info);
}

}  // namespace

int drain_local_job(const std::string& wanted) {
  const std::vector<JobFacts> jobs = find_jobs(read_own_processes());
  if (jobs.empty()) {
    return cannot_drain(
        "no job of yours runs on this host; for one on other hosts: ddprun drain --rdzv-endpoint HOST:PORT "
        "--rdzv-id ID");
  }
  const Result<JobFacts> job = the_job(jobs, wanted);
  if (!job) return refuse_in_lines("ddprun drain", job.error());
  // Looked for again with the pidfd in hand: now the pid cannot become somebody else's.
  const UniqueFd pidfd = open_pidfd(job->launcher);
  const std::vector<JobFacts> now = find_jobs(read_own_processes());
  const bool is_there = std::any_of(now.begin(), now.end(),
                                    [&](const JobFacts& one) { return one.state.tag == job->state.tag; });
  if (!pidfd || !is_there)
    return cannot_drain(fmt::format("the job of pid {} has just ended", job->launcher));
  if (!ask(pidfd))
    return cannot_drain(fmt::format("cannot signal pid {}: {}", job->launcher, std::strerror(errno)));
  const std::optional<ProcessEntry> launcher = read_process(job->launcher);
  const bool is_stopped = launcher && launcher->state == 'T';
  const std::string stopped =
      is_stopped ? fmt::format(". It is stopped, as by Ctrl-Z, and hears that when it goes on: kill -CONT {}",
                               job->launcher)
                 : std::string();
  print_all(STDERR_FILENO,
            fmt::format("ddprun drain: pid {} was asked; its job ends with {} when its workers have{}\n",
                        job->launcher, exit_code::kTempFail, stopped));
  return exit_code::kOk;
}

}  // namespace ddprun::launcher
