#include "rendezvous/membership/scheduler_env.h"

#include <fmt/format.h>

#include <charconv>

namespace ddprun::membership {
namespace {

// Ports that a job number is spread over: above torchrun's two defaults, below the kernel's own range.
constexpr int kFirstPort = 29600;
constexpr int kPorts = 3000;

std::optional<long> number(const EnvLookup& lookup, std::string_view name) {
  const auto text = lookup(name);
  if (!text) return std::nullopt;
  long value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size() || value < 0) return std::nullopt;
  return value;
}

Port port_of(long job, long step) {
  return Port(static_cast<std::uint16_t>(kFirstPort + (job * 7 + step) % kPorts));
}

Result<std::optional<SchedulerWorld>> from_slurm(const EnvLookup& lookup) {
  const auto job = number(lookup, "SLURM_JOB_ID");
  const auto task = number(lookup, "SLURM_PROCID");
  const auto node = number(lookup, "SLURM_NODEID");
  auto nodes = number(lookup, "SLURM_STEP_NUM_NODES");
  if (!nodes) nodes = number(lookup, "SLURM_NNODES");
  if (!job || !task || !node || !nodes || *nodes < 2) return std::optional<SchedulerWorld>();
  const long tasks =
      number(lookup, "SLURM_STEP_NUM_TASKS").value_or(number(lookup, "SLURM_NTASKS").value_or(*nodes));
  const bool is_batch_script = !lookup("SLURM_STEP_ID") || lookup("SLURM_STEP_ID") == "4294967291";
  if (is_batch_script) return std::optional<SchedulerWorld>();
  if (tasks != *nodes) {
    return Error(
        ErrorCode::kUsage,
        fmt::format(
            "Slurm started {} tasks on {} nodes, but ddprun is started once on each node and starts the "
            "workers itself; use srun --ntasks-per-node=1",
            tasks, *nodes));
  }
  const std::string list = lookup("SLURM_STEP_NODELIST").value_or(lookup("SLURM_JOB_NODELIST").value_or(""));
  const std::string host = first_of_nodelist(list);
  if (host.empty()) {
    return Error(ErrorCode::kUsage,
                 fmt::format("cannot read Slurm's node list \"{}\"; use --master-addr", list));
  }
  const long restart = number(lookup, "SLURM_RESTART_COUNT").value_or(0);
  const long step = number(lookup, "SLURM_STEP_ID").value_or(0);
  return std::optional(SchedulerWorld{.scheduler = "Slurm",
                                      .nodes = static_cast<int>(*nodes),
                                      .node_rank = static_cast<int>(*node),
                                      .first_host = host,
                                      .port = port_of(*job, step),
                                      .run_id = fmt::format("slurm-{}.{}.{}", *job, step, restart)});
}

Result<std::optional<SchedulerWorld>> from_open_mpi(const EnvLookup& lookup) {
  const auto rank = number(lookup, "OMPI_COMM_WORLD_RANK");
  const auto size = number(lookup, "OMPI_COMM_WORLD_SIZE");
  if (!rank || !size || *size < 2) return std::optional<SchedulerWorld>();
  const bool on_one_host = number(lookup, "OMPI_COMM_WORLD_LOCAL_SIZE") == size;
  const std::string job = lookup("PMIX_NAMESPACE").value_or("openmpi");
  return std::optional(
      SchedulerWorld{.scheduler = "Open MPI",
                     .nodes = static_cast<int>(*size),
                     .node_rank = static_cast<int>(*rank),
                     .first_host = on_one_host ? "127.0.0.1" : "",
                     .port = port_of(number(lookup, "PMIX_NAMESPACE").value_or(0) % kPorts, 0),
                     .run_id = "openmpi-" + job});
}

}  // namespace

std::string first_of_nodelist(const std::string& list) {
  std::string host;
  for (std::size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const std::size_t end = list.find_first_of(",-]", i + 1);
    const std::size_t close = list.find(']', i + 1);
    if (end == std::string::npos || close == std::string::npos || end == i + 1) return {};
    host += list.substr(i + 1, end - i - 1);
    i = close;
  }
  return host.find_first_of("]- ") == 0 ? std::string() : host;
}

Result<std::optional<SchedulerWorld>> recognise_scheduler(const EnvLookup& lookup) {
  auto slurm = from_slurm(lookup);
  if (!slurm || *slurm) return slurm;
  return from_open_mpi(lookup);
}

}  // namespace ddprun::membership
