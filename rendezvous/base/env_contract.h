#pragma once

#include "rendezvous/base/ids.h"
#include "rendezvous/base/result.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

/// The environment a worker is started with: torchrun's names and values, written once for both sides.
/// The launcher fills a WorkerEnv and calls `to_environment`; the worker calls `parse_worker_env`.
/// Source: PyTorch 2.11 torch/distributed/elastic/agent/server/local_elastic_agent.py and rendezvous.py.
namespace env_name {
inline constexpr std::string_view kRank = "RANK";
inline constexpr std::string_view kLocalRank = "LOCAL_RANK";
inline constexpr std::string_view kWorldSize = "WORLD_SIZE";
inline constexpr std::string_view kLocalWorldSize = "LOCAL_WORLD_SIZE";
inline constexpr std::string_view kGroupRank = "GROUP_RANK";
inline constexpr std::string_view kGroupWorldSize = "GROUP_WORLD_SIZE";
inline constexpr std::string_view kRoleRank = "ROLE_RANK";
inline constexpr std::string_view kRoleName = "ROLE_NAME";
inline constexpr std::string_view kRoleWorldSize = "ROLE_WORLD_SIZE";
inline constexpr std::string_view kMasterAddr = "MASTER_ADDR";
inline constexpr std::string_view kMasterPort = "MASTER_PORT";
inline constexpr std::string_view kRestartCount = "TORCHELASTIC_RESTART_COUNT";
inline constexpr std::string_view kMaxRestarts = "TORCHELASTIC_MAX_RESTARTS";
inline constexpr std::string_view kRunId = "TORCHELASTIC_RUN_ID";
inline constexpr std::string_view kUseAgentStore = "TORCHELASTIC_USE_AGENT_STORE";
inline constexpr std::string_view kErrorFile = "TORCHELASTIC_ERROR_FILE";
inline constexpr std::string_view kNcclAsyncErrorHandling = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
inline constexpr std::string_view kOmpNumThreads = "OMP_NUM_THREADS";
inline constexpr std::string_view kCudaVisibleDevices = "CUDA_VISIBLE_DEVICES";
/// Ours: a value unique to the job, by which its processes are found again (launcher/process/process_table.h).
inline constexpr std::string_view kJobTag = "DDPRUN_JOB_TAG";
/// The nodes' job secret, from whoever starts ddprun: for agents only, workers do not get it.
inline constexpr std::string_view kSecret = "DDPRUN_SECRET";
/// Ours: the backend asked for on the command line ("auto", "nccl", "gloo", "shm"); read by ddprun::init().
inline constexpr std::string_view kBackend = "DDPRUN_BACKEND";
/// Ours, in jobs of several nodes: the number that the coordinator drew when it started. It stays while the job lives,
/// though all launchers may have been replaced.
inline constexpr std::string_view kCoordinator = "DDPRUN_COORDINATOR";
/// Ours: the job's log directory of this generation; workers put metrics beside the logs.
inline constexpr std::string_view kLogDir = "DDPRUN_LOG_DIR";
/// Ours: kKeptFiles files of memory, "PATH PATH PATH PATH", which the launcher keeps for this local rank from one
/// generation to the next.
inline constexpr std::string_view kKeptMemory = "DDPRUN_KEPT_MEMORY";
}  // namespace env_name

inline constexpr std::size_t kKeptFiles = 4;
/// By which the kernel knows each of them.
inline constexpr const char* kKeptMemoryName = "ddprun-kept-memory";

/// One worker's place in the world and how to reach the others.
struct WorkerEnv {
  Rank rank;
  LocalRank local_rank;
  WorldSize world_size{1};
  LocalWorldSize local_world_size{1};
  NodeRank group_rank;
  int group_world_size = 1;  ///< number of agents (nodes)
  Rank role_rank;
  WorldSize role_world_size{1};
  std::string role_name = "default";
  std::string master_addr = "127.0.0.1";
  Port master_port;
  int restart_count = 0;
  int max_restarts = 0;
  std::string run_id = "none";
  bool use_agent_store = true;  ///< the launcher serves the store: every rank is a client of it
  std::string error_file;       ///< empty: none
};

/// Looks a variable up; nullopt when it is not set. Tests pass a map, programs `getenv`.
using EnvLookup = std::function<std::optional<std::string>(std::string_view name)>;

/// The process's own environment.
std::optional<std::string> process_env(std::string_view name);

/// Takes a variable out of the process's environment: what is started later does not inherit it, and its
/// bytes are overwritten where /proc/<pid>/environ shows them, of this process and of those it forks. Before
/// any thread.
std::optional<std::string> take_process_env(std::string_view name);

/// The variables of `env`, in a fixed order. Booleans are Python's "True"/"False", as libtorch compares them.
/// TORCHELASTIC_ERROR_FILE is left out when there is none.
std::vector<std::pair<std::string, std::string>> to_environment(const WorkerEnv& env);

/// Reads what `to_environment` (or torchrun) wrote. RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are
/// required, as in libtorch's env:// rendezvous; the others have torchrun's defaults. A missing or malformed
/// variable, or a rank outside the world, is a kConfig error that names the variable and its value and says
/// how to launch.
Result<WorkerEnv> parse_worker_env(const EnvLookup& lookup);

/// True when a launcher (ddprun or torchrun) started this process: RANK and WORLD_SIZE are set.
bool is_launched(const EnvLookup& lookup);

}  // namespace ddprun
