#include "launcher/cli/signal_names.h"
#include "launcher/plan/entrypoint.h"
#include "launcher/plan/plan.h"
#include "launcher/text/template_text.h"
#include "rendezvous/base/env_contract.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/base/restart_cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

namespace ddprun::launcher {
namespace {

/// Variables in the order they came, a later value replacing an earlier one.
class Environment {
 public:
  explicit Environment(const std::vector<std::pair<std::string, std::string>>& inherited) {
    for (const auto& [name, value] : inherited) set(name, value);
  }

  void set(std::string_view name, std::string_view value) {
    std::string line = fmt::format("{}={}", name, value);
    const auto [found, is_new] = index_.try_emplace(std::string(name), lines_.size());
    if (is_new) {
      lines_.push_back(std::move(line));
    } else {
      lines_[found->second] = std::move(line);
    }
  }
  void set_default(std::string_view name, std::string_view value) {
    if (index_.count(std::string(name)) == 0) set(name, value);
  }
  void remove(std::string_view name) {
    const auto found = index_.find(std::string(name));
    if (found != index_.end()) lines_[found->second].clear();
  }
  [[nodiscard]] std::vector<std::string> take() && {
    std::erase(lines_, std::string());
    return std::move(lines_);
  }

 private:
  std::vector<std::string> lines_;
  std::unordered_map<std::string, std::size_t> index_;
};

bool reaches_console(const Plan& plan, const WorkerSpec& worker) {
  const std::vector<int>& filter = plan.options.local_ranks_filter;
  if (plan.options.rank0_only && worker.rank.value() != 0) return false;
  return filter.empty() || std::find(filter.begin(), filter.end(), worker.local_rank.value()) != filter.end();
}

/// torchrun's names for the pattern of a prefix: the flag, else the variable; empty ones count as none.
std::string prefix_pattern(const Plan& plan) {
  if (!plan.options.log_line_prefix_template.empty()) return plan.options.log_line_prefix_template;
  return plan.host.env("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE").value_or("");
}

/// What stands before a console line: torchrun's for tee'd streams; on request, rank and host, or the
/// pattern.
std::string line_prefix(const Plan& plan, Rank rank, LocalRank local_rank, bool is_teed) {
  const bool is_wanted = plan.options.prefix || plan.options.log_funnel;
  if (!is_teed && !is_wanted) return {};
  std::string pattern = is_wanted ? plan.options.log_line_prefix_template : prefix_pattern(plan);
  if (pattern.empty()) pattern = is_wanted ? "[${rank}@${hostname}] " : "[${role_name}${local_rank}]:";
  const std::array<TemplateValue, 4> values{TemplateValue{"role_name", plan.options.role},
                                            {"rank", to_string(rank)},
                                            {"local_rank", to_string(local_rank)},
                                            {"hostname", plan.host.hostname}};
  return substitute(pattern, values);
}

/// A stream goes to a file when it is redirected or tee'd, and to the console unless it is redirected only.
StreamSpec stream_spec(bool is_redirected, bool is_teed, bool is_shown, bool has_files) {
  if (!has_files) return {.to_file = false, .to_console = is_shown, .prefix = {}};
  return {.to_file = is_redirected || is_teed,
          .to_console = is_shown && (is_teed || !is_redirected),
          .prefix = {}};
}

void place_streams(WorkerSpec& worker, const Plan& plan) {
  const int local_rank = worker.local_rank.value();
  const StdStream redirects = plan.options.redirects.of(local_rank);
  const StdStream tee = plan.options.tee.of(local_rank);
  const bool is_shown = reaches_console(plan, worker);
  const bool has_files = !worker.log_dir.empty();
  worker.out = stream_spec(has_stdout(redirects), has_stdout(tee), is_shown, has_files);
  worker.err = stream_spec(has_stderr(redirects), has_stderr(tee), is_shown, has_files);
  worker.out.prefix = line_prefix(plan, worker.rank, worker.local_rank, has_stdout(tee) && has_files);
  worker.err.prefix = line_prefix(plan, worker.rank, worker.local_rank, has_stderr(tee) && has_files);
}

std::string device_of(const Plan& plan, int local_rank) {
  const auto index = static_cast<std::size_t>(local_rank);
  return index < plan.host.visible_devices.size() ? plan.host.visible_devices[index]
                                                  : std::to_string(local_rank);
}

WorkerEnv contract_of(const WorkerSpec& worker, const Plan& plan, const membership::Round& round) {
  WorkerEnv env;
  env.rank = worker.rank;
  env.local_rank = plan.options.virtual_local_rank ? LocalRank(0) : worker.local_rank;
  env.world_size = round.seat.world_size;
  env.local_world_size = plan.local_world_size;
  env.group_rank = round.seat.node_rank;
  env.group_world_size = round.seat.nodes;
  env.role_rank = Rank(round.seat.base_role_rank.value() + worker.local_rank.value());
  env.role_world_size = round.seat.role_world_size;
  env.role_name = plan.options.role;
  env.master_addr = round.master_addr;
  env.master_port = round.master_port;
  env.restart_count = membership::restart_count(round.seat.generation);
  env.max_restarts = round.seat.restarts_allowed.value_or(plan.options.max_restarts);
  env.run_id = plan.options.run_id;
  env.error_file = worker.error_file;
  return env;
}

std::vector<std::string> environment_of(const WorkerSpec& worker, const Plan& plan,
                                        const membership::Round& round) {
  Environment environment(plan.host.environment);
  // Workers have no part in the handshake of the nodes, and what they run is not always ours.
  environment.remove(env_name::kSecret);
  // Another launcher's, where this one runs inside a worker of it.
  environment.remove(kRestartCauseName);
  if (!round.restart_cause.empty())
    environment.set(kRestartCauseName, ddprun::printable(round.restart_cause, kLongestRestartCause));
  environment.remove(env_name::kCoordinator);
  if (!round.seat.coordinator.empty()) environment.set(env_name::kCoordinator, round.seat.coordinator);
  environment.remove(env_name::kKeptMemory);
  if (!plan.kept_memory.empty()) {
    const auto index = static_cast<std::size_t>(worker.local_rank.value());
    environment.set(env_name::kKeptMemory, plan.kept_memory[index]);
  }
  // An error file of ours would be written by an outer launcher's worker, not by this one's.
  environment.set(env_name::kErrorFile, worker.error_file);
  for (const auto& [name, value] : to_environment(contract_of(worker, plan, round)))
    environment.set(name, value);
  environment.set_default(env_name::kNcclAsyncErrorHandling, "1");
  environment.set("TORCHELASTIC_SIGNALS_TO_HANDLE", join_signal_names(plan.options.signals_to_handle, ","));
  if (plan.local_world_size.value() > 1) environment.set_default(env_name::kOmpNumThreads, "1");
  if (plan.options.virtual_local_rank) {
    environment.set(env_name::kCudaVisibleDevices, device_of(plan, worker.local_rank.value()));
  }
  // A ddprun inside a worker of another ddprun: its processes belong to both jobs.
  const std::optional<std::string> outer_tag = plan.host.env(env_name::kJobTag);
  environment.set(env_name::kJobTag,
                  outer_tag ? fmt::format("{}:{}", *outer_tag, plan.job_tag) : plan.job_tag);
  if (!plan.options.backend.empty()) environment.set(env_name::kBackend, plan.options.backend);
  // What is written to a temporary one would outlast the job, and nobody has asked for it.
  if (!plan.log_root.empty() && !plan.log_root_is_temporary)
    environment.set(env_name::kLogDir, attempt_directory(plan, round.seat.generation));
  return std::move(environment).take();
}

/// The command under a debugger: before the whole command, except Python's own, which is a module of the
/// interpreter.
std::vector<std::string> under_debugger(std::vector<std::string> argv, const Plan& plan) {
  const std::vector<std::string>& debugger = plan.options.debug_command;
  auto at = argv.begin();
  if (is_under_pdb(plan.options)) at = argv.insert(at + 2, "-m") + 1;
  argv.insert(at, debugger.begin(), debugger.end());
  return argv;
}

std::vector<std::string> argv_of(const WorkerSpec& worker, const Plan& plan) {
  const std::array<TemplateValue, 1> values{TemplateValue{"local_rank", to_string(worker.local_rank)}};
  std::vector<std::string> argv{plan.command.front()};
  for (auto argument = plan.command.begin() + 1; argument != plan.command.end(); ++argument) {
    argv.push_back(substitute(*argument, values));
  }
  const bool is_debugged = plan.options.debug_rank == worker.rank.value();
  return is_debugged ? under_debugger(std::move(argv), plan) : argv;
}

bool gets_stdin(const WorkerSpec& worker, const Plan& plan) {
  if (plan.options.stdin_local_rank) return *plan.options.stdin_local_rank == worker.local_rank.value();
  if (plan.options.debug_rank) return *plan.options.debug_rank == worker.rank.value();
  return plan.local_world_size.value() == 1;
}

}  // namespace

std::vector<WorkerSpec> worker_specs(const Plan& plan, const membership::Round& round) {
  std::vector<WorkerSpec> workers;
  const std::string attempt = attempt_directory(plan, round.seat.generation);
  for (int local_rank = 0; local_rank < plan.local_world_size.value(); ++local_rank) {
    WorkerSpec worker;
    worker.local_rank = LocalRank(local_rank);
    worker.rank = Rank(round.seat.base_rank.value() + local_rank);
    if (!attempt.empty()) {
      worker.log_dir = fmt::format("{}/{}", attempt, local_rank);
      worker.error_file = worker.log_dir + "/error.json";
    }
    worker.cannot_start = plan.cannot_start;
    if (!plan.cannot_start) worker.argv = argv_of(worker, plan);
    worker.environment = environment_of(worker, plan, round);
    if (!plan.cpus.empty()) worker.cpus = plan.cpus[static_cast<std::size_t>(local_rank)];
    place_streams(worker, plan);
    worker.inherit_stdin = gets_stdin(worker, plan);
    workers.push_back(std::move(worker));
  }
  return workers;
}

}  // namespace ddprun::launcher
