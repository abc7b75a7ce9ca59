#pragma once

#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/ids.h"
#include "rendezvous/config/override.h"
#include "rendezvous/membership/auth.h"
#include "rendezvous/membership/timing.h"
#include "rendezvous/membership/types.h"

#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// How a worker's streams are handled: torchrun's Std, the values of --redirects and --tee. Two bits.
enum class StdStream { kNone = 0, kOut = 1, kErr = 2, kBoth = 3 };

inline bool has_stdout(StdStream streams) { return (static_cast<int>(streams) & 1) != 0; }
inline bool has_stderr(StdStream streams) { return (static_cast<int>(streams) & 2) != 0; }

/// "3" for all local ranks, or "0:1,12:3" by local rank (ranks that are not named: kNone).
struct StreamMap {
  StdStream all = StdStream::kNone;
  std::map<int, StdStream> by_local_rank;

  [[nodiscard]] StdStream of(int local_rank) const {
    const auto found = by_local_rank.find(local_rank);
    return found == by_local_rank.end() ? all : found->second;
  }
};

/// Beyond any machine; keeps a typed 10000000000 from being tried.
inline constexpr int kMaxWorkersPerNode = 65536;

/// --nproc-per-node: a number, or as many as this machine has of something.
struct WorkerCount {
  enum class Of {
    kNumber,  ///< `number`
    kAuto,    ///< GPUs, or else CPUs
    kCpu,
    kGpu,
    kXpu,  ///< torchrun's word for Intel's GPUs, which nobody counts here
  };
  Of of = Of::kNumber;
  int number = 1;

  friend bool operator==(const WorkerCount&, const WorkerCount&) = default;
};
/// As it is written: "4", "auto", "cpu", "gpu", "xpu".
std::string to_string(const WorkerCount& count);

/// How the nodes find their coordinator: told by flags, or, as torchrun's c10d, by whose address the endpoint is.
enum class RdzvBackend { kStatic, kC10d };

/// --numa-binding, as cpu_binding.h says. Both enums are in the order of their words (values.h).
enum class NumaBinding { kNode, kSocket, kExclusive, kCoreComplex };

/// The command line of `ddprun`, as values: flags with their defaults, nothing resolved against this
/// machine. Filled by command_line.h (flag, else PET_ variable, else default); turned into a Plan by plan.h.
struct Options : membership::JobSpec {
  // World
  WorkerCount workers;
  bool standalone = false;
  std::optional<int> node_rank;  ///< 0 unless given
  std::string master_addr = "127.0.0.1";
  std::optional<int> master_port;  ///< unset: a free port on one node, torchrun's 29500 on several
  RdzvBackend rdzv_backend = RdzvBackend::kStatic;
  std::optional<Endpoint> rdzv_endpoint;
  membership::RdzvConf rdzv_conf;
  membership::SecretSource secret;  ///< of the nodes; no worker gets it
  std::string local_addr;
  std::string role = "default";

  // Restarts and ends
  std::vector<int> no_restart_exit_codes{exit_code::kConfig, exit_code::kDoNotRestart};
  std::vector<int> signals_to_handle{SIGTERM, SIGINT, SIGHUP, SIGQUIT};  ///< that end the job in order
  std::chrono::milliseconds shutdown_timeout{30000};  ///< grace between the death signal and SIGKILL
  /// How long a symptom waits for its cause before the others are stopped.
  std::chrono::milliseconds blame_window{3000};
  std::optional<std::chrono::milliseconds> job_timeout;
  /// Without progress for so long, say why, once; 0: never. Unset: after a minute, more reluctantly (HangLimits).
  std::optional<std::chrono::milliseconds> hang_report;
  /// Without progress for so long, say why and end the workers; 0: never. Unset: what the job file says, and of a
  /// program never.
  std::optional<std::chrono::milliseconds> hang_timeout;
  std::optional<Endpoint> metrics;  ///< where they are served; none: nowhere
  bool keep_detached = false;       ///< what the workers of a job that succeeded left running goes on

  // What to run
  bool module = false;
  bool no_python = false;
  bool run_path = false;  ///< torchrun's runpy in the worker: here, run it with Python whatever its name
  bool pass_local_rank = false;  ///< --local-rank=N as torch.distributed.launch did
  std::string entrypoint;        ///< job.json, script.py, module or program
  std::vector<std::string> entrypoint_args;
  std::string backend;                             ///< empty: the job file's or the program's own choice
  std::vector<config::Override> config_overrides;  ///< --set, in order

  // Placement
  bool virtual_local_rank = false;
  std::optional<NumaBinding> numa_binding;

  // Output and input
  std::string log_dir;  ///< empty: a temporary one; /dev/null: none
  StreamMap redirects;
  StreamMap tee;
  std::vector<int> local_ranks_filter;  ///< empty: all reach the console
  std::vector<std::string> duplicate_stdout_filters;
  std::vector<std::string> duplicate_stderr_filters;
  std::string log_line_prefix_template;  ///< before each tee'd console line; empty: the variable, or
                                         ///< torchrun's default
  bool prefix = false;                   ///< rank and host before each console line
  bool log_funnel = false;               ///< console lines of all nodes go to the coordinator's console
  bool rank0_only = false;               ///< only rank 0's lines reach a console
  bool fold_lines = false;               ///< one line for what all ranks print
  std::optional<int> stdin_local_rank;
  std::optional<int> debug_rank;           ///< global rank
  std::vector<std::string> debug_command;  ///< what that rank is started under, e.g. {"gdb", "--args"}
  std::string events_file;

  bool verbose = false;
  bool dry_run = false;
};

}  // namespace ddprun::launcher
