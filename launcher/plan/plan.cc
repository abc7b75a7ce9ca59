#include "launcher/plan/plan.h"

#include "launcher/plan/cpu_binding.h"
#include "launcher/plan/entrypoint.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;

Result<int> worker_count(const WorkerCount& wanted, const HostFacts& host) {
  const int cpus = static_cast<int>(host.cpus.size());
  switch (wanted.of) {
    case WorkerCount::Of::kNumber:
      return wanted.number;
    case WorkerCount::Of::kCpu:
      return cpus;
    case WorkerCount::Of::kAuto:
      return host.gpu_count > 0 ? host.gpu_count : cpus;
    case WorkerCount::Of::kGpu:
      break;
    case WorkerCount::Of::kXpu:
      return usage_error(
          "--nproc-per-node xpu: ddprun counts NVIDIA GPUs and CPUs only; give the number of workers");
  }
  if (host.gpu_count > 0) return host.gpu_count;
  const std::optional<std::string> visible = host.env("CUDA_VISIBLE_DEVICES");
  return usage_error(fmt::format(
      "--nproc-per-node gpu: this machine has no GPU{}; use --nproc-per-node cpu or a number",
      visible ? fmt::format(" (CUDA_VISIBLE_DEVICES=\"{}\")", *visible) : std::string(" (no /dev/nvidia0)")));
}

bool wants_gpu_each(const Options& options) {
  return options.backend == "nccl" || options.workers.of == WorkerCount::Of::kGpu;
}

Result<void> check_devices(const Plan& plan) {
  const Options& options = plan.options;
  const HostFacts& host = plan.host;
  const int workers = plan.local_world_size.value();
  if (wants_gpu_each(options)) {
    if (Result<void> enough = check_gpus(plan); !enough) return enough.error();
  }
  const std::optional<std::string> visible = host.env("CUDA_VISIBLE_DEVICES");
  if (options.virtual_local_rank && visible && workers > static_cast<int>(host.visible_devices.size())) {
    return usage_error(
        fmt::format("--virtual-local-rank: CUDA_VISIBLE_DEVICES=\"{}\" names {} devices for {} workers; "
                    "name one device for each worker or lower --nproc-per-node",
                    *visible, host.visible_devices.size(), workers));
  }
  return ok();
}

std::int64_t ranks_of(int nodes, int workers) { return static_cast<std::int64_t>(nodes) * workers; }

Result<void> check_combinations(const Options& options, int workers) {
  const EntrypointKind kind = entrypoint_kind(options);
  if (options.module && options.no_python && !options.run_path) {
    return usage_error("--module and --no-python exclude each other: -m needs Python; leave one away");
  }
  if (!options.config_overrides.empty() && kind != EntrypointKind::kJob) {
    return usage_error(fmt::format(
        "--set {}: \"{}\" is no .json job, so there is nothing to set; pass it as an argument after the "
        "program",
        options.config_overrides.front().assignment, options.entrypoint));
  }
  if (options.node_rank.value_or(0) >= options.max_nodes) {
    return usage_error(fmt::format("--node-rank {}: with --nnodes {} it must be in [0, {}]",
                                   *options.node_rank, options.max_nodes, options.max_nodes - 1));
  }
  // MAX may mean: as many as come.
  const int nodes = std::max(options.min_nodes, options.node_rank.value_or(0) + 1);
  if (const std::int64_t ranks = ranks_of(nodes, workers); ranks > membership::kMaxRanks) {
    return usage_error(
        fmt::format("{} nodes with {} workers each: that is {} ranks, and a job has at most {}", nodes,
                    workers, ranks, membership::kMaxRanks));
  }
  if (options.standalone && options.max_nodes > 1) {
    return usage_error(fmt::format(
        "--standalone and --nnodes {} exclude each other: a standalone job has one node", options.max_nodes));
  }
  if (options.max_nodes == 1 && !options.rdzv_conf.is_host.value_or(true)) {
    return usage_error(
        "--rdzv-conf is_host=false: a job of one node serves its own store and joins no coordinator; give "
        "--nnodes 1:2 or more to join one");
  }
  if (options.stdin_local_rank && *options.stdin_local_rank >= workers) {
    return usage_error(fmt::format("--stdin {}: the local ranks of this job are 0 to {}",
                                   *options.stdin_local_rank, workers - 1));
  }
  if (options.debug_rank && options.max_nodes == 1 && *options.debug_rank >= workers) {
    return usage_error(
        fmt::format("--debug-rank {}: the ranks of this job are 0 to {}", *options.debug_rank, workers - 1));
  }
  return ok();
}

/// A relative path counts from the working directory, and that may have been removed.
Result<void> check_has_place(std::string_view flag, const std::string& typed, const HostFacts& host) {
  if (fs::path(typed).is_absolute() || !host.working_directory.empty()) return ok();
  return usage_error(
      fmt::format("{} \"{}\": the working directory has been removed; change into one that is there, or name "
                  "an absolute path",
                  flag, typed));
}

/// Whether `path` can be made and written below the nearest directory that exists.
Result<void> check_can_create(const fs::path& path, std::string_view flag, std::string_view typed) {
  std::error_code ignored;
  fs::path existing = path;
  while (!fs::exists(existing, ignored) && existing.has_relative_path()) existing = existing.parent_path();
  if (!fs::is_directory(existing, ignored)) {
    return usage_error(fmt::format("{} \"{}\": {} is not a directory", flag, typed, existing.string()));
  }
  if (access(existing.c_str(), W_OK | X_OK) != 0) {
    return usage_error(fmt::format("{} \"{}\": cannot write in {}: {}", flag, typed, existing.string(),
                                   std::strerror(errno)));
  }
  return ok();
}

Result<void> check_events_file(const Options& options, const HostFacts& host) {
  if (options.events_file.empty()) return ok();
  if (Result<void> place = check_has_place("--events", options.events_file, host); !place) return place;
  const fs::path path = fs::path(host.working_directory) / options.events_file;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return usage_error(fmt::format("--events \"{}\": is a directory; name a file", options.events_file));
  }
  if (fs::exists(path, ignored)) {
    if (access(path.c_str(), W_OK) == 0) return ok();
    return usage_error(
        fmt::format("--events \"{}\": cannot be written: {}", options.events_file, std::strerror(errno)));
  }
  if (!fs::is_directory(path.parent_path(), ignored)) {
    return usage_error(fmt::format("--events \"{}\": directory {} does not exist", options.events_file,
                                   path.parent_path().string()));
  }
  return check_can_create(path.parent_path(), "--events", options.events_file);
}

/// A run id as the name of a directory.
std::string as_file_name(std::string text) {
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

Result<void> place_logs(Plan& plan, const std::string& random_suffix) {
  const std::string& typed = plan.options.log_dir;
  if (typed == "/dev/null") return ok();
  plan.log_root_is_temporary = typed.empty();
  if (!typed.empty()) {
    if (Result<void> place = check_has_place("--log-dir", typed, plan.host); !place) return place;
  }
  const std::string name = fmt::format("{}_{}", as_file_name(plan.options.run_id), random_suffix);
  const fs::path root = typed.empty() ? fs::path(plan.host.temporary_directory) / ("ddprun_" + name)
                                      : fs::path(plan.host.working_directory) / typed / name;
  Result<void> creatable =
      check_can_create(root.parent_path(), typed.empty() ? "temporary directory" : "--log-dir",
                       typed.empty() ? plan.host.temporary_directory : typed);
  if (!creatable) return creatable.error();
  plan.log_root = root.lexically_normal().string();
  return ok();
}

}  // namespace

bool is_waited_for(const Options& options) {
  return options.max_nodes > 1 && !options.is_elastic() && !options.dry_run;
}

Result<Plan> make_plan(const Options& options, const HostFacts& host, const std::string& random_suffix) {
  Plan plan;
  plan.options = options;
  plan.host = host;
  plan.title = options.entrypoint;
  plan.job_tag = "ddprun-" + random_suffix;

  Result<int> workers = worker_count(options.workers, host);
  if (!workers) return workers.error();
  plan.local_world_size = LocalWorldSize(*workers);
  if (Result<void> sane = check_combinations(options, *workers); !sane) return sane.error();
  if (Result<void> devices = check_devices(plan); !devices) return devices.error();

  if (options.numa_binding) {
    Result<std::vector<std::vector<int>>> cpus =
        bind_cpus(*options.numa_binding, host, plan.local_world_size);
    if (!cpus) return cpus.error();
    plan.cpus = std::move(*cpus);
  }
  if (options.standalone) plan.options.run_id = "standalone-" + random_suffix;
  Result<MeetingPlace> meeting = meeting_of(options);
  if (!meeting) return meeting.error();
  plan.meeting = std::move(*meeting);
  if (Result<void> logs = place_logs(plan, random_suffix); !logs) return logs.error();
  if (Result<void> events = check_events_file(options, host); !events) return events.error();

  Result<std::vector<std::string>> command = resolve_command(options, host);
  if (!command) {
    if (!is_waited_for(options)) return command.error();
    plan.cannot_start = command.error();
    return plan;
  }
  Result<std::vector<std::string>> debugger = resolve_debugger(options, host);
  if (!debugger) return debugger.error();
  plan.options.debug_command = std::move(*debugger);
  plan.command = std::move(*command);
  return plan;
}

Result<void> check_gpus(const Plan& plan) {
  const int workers = plan.local_world_size.value();
  const int gpus = plan.host.gpu_count;
  if (workers <= gpus) return ok();
  const std::string remedy = gpus == 0 ? std::string("use --backend gloo")
                                       : fmt::format("use --nproc-per-node {} or --backend gloo", gpus);
  return usage_error(fmt::format(
      "--nproc-per-node {}: backend nccl needs a GPU for each worker, and this machine has {}; {}",
      to_string(plan.options.workers), gpus, remedy));
}

membership::Round single_node_round(const Plan& plan, Port port) {
  membership::Round round;
  round.seat.world_size = WorldSize(plan.local_world_size.value());
  round.seat.role_world_size = round.seat.world_size;
  round.master_addr = plan.meeting.host;
  round.master_port = port;
  return round;
}

membership::Round expected_round(const Plan& plan) {
  membership::Round round = single_node_round(plan, plan.meeting.port);
  const int nodes = plan.options.max_nodes;
  if (nodes == 1) return round;
  const int workers = plan.local_world_size.value();
  round.seat.node_rank = plan.meeting.node_rank.value_or(NodeRank(0));
  round.seat.nodes = nodes;
  round.seat.base_rank = Rank(round.seat.node_rank.value() * workers);
  round.seat.base_role_rank = round.seat.base_rank;
  round.seat.world_size =
      WorldSize(static_cast<int>(std::min<std::int64_t>(ranks_of(nodes, workers), membership::kMaxRanks)));
  round.seat.role_world_size = round.seat.world_size;
  return round;
}

std::string attempt_directory(const Plan& plan, Generation generation) {
  return plan.log_root.empty()
             ? std::string()
             : fmt::format("{}/attempt_{}", plan.log_root, membership::restart_count(generation));
}

}  // namespace ddprun::launcher
