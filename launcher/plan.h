#pragma once

#include "launcher/options.h"
#include "rendezvous/base/env_contract.h"
#include "rendezvous/base/ids.h"
#include "rendezvous/base/result.h"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// What `plan` may know about this machine; filled by host.h, invented by tests.
struct HostFacts {
  std::string hostname;
  int cpu_count = 1;              ///< CPUs this process may run on
  int gpu_count = 0;              ///< as CUDA_VISIBLE_DEVICES and /dev/nvidia* tell, without opening CUDA
  std::vector<std::string> visible_devices;  ///< entries of CUDA_VISIBLE_DEVICES, or "0", "1", …
  std::vector<std::vector<int>> numa_nodes;  ///< CPUs of each NUMA node, from sysfs; empty when unknown
  std::vector<std::vector<int>> sockets;     ///< CPUs of each socket
  std::vector<int> gpu_numa_node;            ///< NUMA node of each visible device, -1 when unknown
  std::string self_directory;                ///< where this binary lies: ddprun-worker is looked for there
  std::vector<std::pair<std::string, std::string>> environment;  ///< inherited by the workers
};

/// The resolved job on this node: everything that is the same in every generation.
struct Plan {
  Options options;
  LocalWorldSize local_world_size{1};
  std::vector<std::string> command;  ///< argv of a worker, before ${local_rank} is filled in
  std::string title;                 ///< what reports call the job: the entry point as typed
  std::string log_root;              ///< <log_dir>/<run_id>_<random>; absolute
  std::string job_tag;               ///< unique to this invocation, in every worker's environment
  HostFacts host;
};

/// What the rendezvous decided for one generation.
struct RoundInfo {
  Generation generation{0};
  int restart_count = 0;
  NodeRank group_rank{0};
  int group_world_size = 1;
  Rank base_rank{0};
  WorldSize world_size{1};
  Rank base_role_rank{0};
  WorldSize role_world_size{1};
  std::string master_addr;
  Port master_port;
};

/// One process to start, complete: process/spawn.h does exactly this and decides nothing.
struct WorkerSpec {
  LocalRank local_rank;
  Rank rank;
  std::vector<std::string> argv;         ///< argv[0] is looked up in PATH when it has no slash
  std::vector<std::string> environment;  ///< "NAME=value", complete
  std::vector<int> cpus;                 ///< empty: not bound
  std::string log_dir;                   ///< attempt_N/<local_rank>; holds stdout.log, stderr.log, error.json
  StdStream to_file = StdStream::kNone;     ///< streams written to log files
  StdStream to_console = StdStream::kBoth;  ///< streams that reach the console
  bool inherit_stdin = false;
};

/// Resolves options against the host. Errors (kUsage) name the flag, the value and what is allowed.
Result<Plan> make_plan(const Options& options, const HostFacts& host, const std::string& random_suffix);

/// The workers of this node in one generation.
std::vector<WorkerSpec> worker_specs(const Plan& plan, const RoundInfo& round);

/// --dry-run's text: argv, environment (what differs from ours), CPUs and devices of each worker.
std::string describe(const Plan& plan, const std::vector<WorkerSpec>& workers);

}  // namespace ddprun::launcher
