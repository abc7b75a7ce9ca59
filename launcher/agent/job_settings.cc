#include "launcher/agent/job_settings.h"

#include "rendezvous/base/env_contract.h"

#include <algorithm>
#include <csignal>
#include <cstddef>

namespace ddprun::launcher {
namespace {

// Of a generation before: another thread closes them, perhaps while the next ones open.
int logs_being_closed(const Plan& plan) {
  const bool may_follow = plan.options.max_restarts > 0 || plan.options.max_nodes > 1;
  if (!may_follow || plan.log_root.empty()) return 0;
  int files = 0;
  for (int worker = 0; worker < plan.local_world_size.value(); ++worker) {
    const StdStream redirects = plan.options.redirects.of(worker);
    const StdStream tee = plan.options.tee.of(worker);
    files += has_stdout(redirects) || has_stdout(tee) ? 1 : 0;
    files += has_stderr(redirects) || has_stderr(tee) ? 1 : 0;
  }
  return files;
}

}  // namespace

SupervisorOptions supervisor_options(const Plan& plan) {
  SupervisorOptions options;
  options.local_world_size = plan.local_world_size;
  options.grace = plan.options.shutdown_timeout;
  options.blame_window = plan.options.blame_window;
  if (plan.options.job_timeout) options.job_timeout = *plan.options.job_timeout;
  options.has_peers = plan.options.max_nodes > 1;
  if (plan.options.max_nodes > 1) options.sigterm_exit_code = membership::exit_code_of_leaving(SIGTERM);
  options.no_restart_exit_codes = plan.options.no_restart_exit_codes;
  return options;
}

OutputOptions output_options(const Plan& plan) {
  return {.stdout_filters = plan.options.duplicate_stdout_filters,
          .stderr_filters = plan.options.duplicate_stderr_filters,
          .fold_lines = plan.options.fold_lines,
          .give_stdin_a_terminal = plan.options.stdin_local_rank || plan.options.debug_rank,
          .interrupt_key = plan.options.debug_rank ? InterruptKey::kWorkers : InterruptKey::kOurs};
}

std::size_t reserved_descriptors(const Plan& plan, int alive) {
  constexpr int kWorker = 5;   // its pidfd, the reading ends of its pipes, its log files
  constexpr int kMoment = 16;  // the ends of whoever is being started, and all that is opened for a moment
  constexpr int kNodes = 12;   // our connection, and on the node that hosts them, store and coordinator
  const int to_come = plan.local_world_size.value() - alive;
  const int descriptors =
      kMoment + (plan.options.max_nodes > 1 ? kNodes : 0) + kWorker * to_come + logs_being_closed(plan);
  return static_cast<std::size_t>(descriptors);
}

std::size_t needed_descriptors(const Plan& plan) {
  constexpr std::size_t kLauncher = 24;  // as long as it runs
  const std::size_t clients = static_cast<std::size_t>(plan.local_world_size.value());
  const std::size_t kept = plan.keeps_memory ? clients * kKeptFiles : 0;
  return kLauncher + reserved_descriptors(plan, 0) + clients + kept;
}

std::vector<int> agent_signals(const Plan& plan) {
  std::vector<int> signals = plan.options.signals_to_handle;
  for (const int signal : {SIGCHLD, SIGWINCH, SIGUSR1, SIGUSR2, SIGTSTP, SIGURG}) {
    if (std::find(signals.begin(), signals.end(), signal) == signals.end()) signals.push_back(signal);
  }
  return signals;
}

}  // namespace ddprun::launcher
