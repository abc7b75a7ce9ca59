#include "launcher/commands/drain.h"

#include "launcher/agent/agent.h"
#include "launcher/cli/reply.h"
#include "launcher/process/pidfd.h"
#include "launcher/text/text.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/print.h"
#include "rendezvous/base/unique_fd.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>

namespace ddprun::launcher {
namespace {

bool is_meant(const JobFacts& job, const std::string& wanted) {
  return wanted.empty() || wanted == std::to_string(job.launcher) || wanted == job.state.tag ||
         (wanted == job.state.run_id && !job.state.run_id.empty());
}

std::string list(const std::vector<JobFacts>& jobs) {
  std::string text;
  for (const JobFacts& job : jobs) {
    text += fmt::format("\n  pid {:<8} job {:<20} {}", job.launcher, job.state.tag,
                        shorten(job.command_line, 80));
  }
  return text;
}

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

Result<pid_t> launcher_to_drain(const std::vector<JobFacts>& jobs, const std::string& wanted) {
  std::vector<JobFacts> meant;
  std::copy_if(jobs.begin(), jobs.end(), std::back_inserter(meant),
               [&](const JobFacts& job) { return is_meant(job, wanted); });
  if (meant.size() == 1) return meant.front().launcher;
  if (meant.size() > 1) {
    return Error(
        ErrorCode::kUsage,
        fmt::format("{} of your jobs on this host {}; name one by its pid:{}", meant.size(),
                    wanted.empty() ? "could be meant" : fmt::format("go by \"{}\"", printable(wanted)),
                    list(meant)));
  }
  if (jobs.empty()) {
    return Error(ErrorCode::kUnavailable,
                 "no job of yours runs on this host; for one on other hosts: ddprun drain --rdzv-endpoint "
                 "HOST:PORT --rdzv-id ID");
  }
  return Error(ErrorCode::kUnavailable,
               fmt::format("no job \"{}\" on this host; your jobs here:{}", printable(wanted), list(jobs)));
}

int drain_local_job(const std::string& wanted) {
  const Result<pid_t> launcher = launcher_to_drain(find_jobs(read_own_processes()), wanted);
  if (!launcher) return refuse_in_lines("ddprun drain", launcher.error());
  // Looked for again with the pidfd in hand: now the pid cannot become somebody else's.
  const UniqueFd pidfd = open_pidfd(*launcher);
  const Result<pid_t> again = launcher_to_drain(find_jobs(read_own_processes()), std::to_string(*launcher));
  if (!pidfd || !again) return cannot_drain(fmt::format("the job of pid {} has just ended", *launcher));
  if (!ask(pidfd))
    return cannot_drain(fmt::format("cannot signal pid {}: {}", *launcher, std::strerror(errno)));
  print_all(STDERR_FILENO,
            fmt::format("ddprun drain: pid {} was asked; its job ends with {} when its workers have\n",
                        *launcher, exit_code::kTempFail));
  return exit_code::kOk;
}

}  // namespace ddprun::launcher
