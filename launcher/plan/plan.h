#pragma once

#include "launcher/cli/options.h"
#include "launcher/plan/host.h"
#include "launcher/plan/meeting.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/ids.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/types.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher {

/// The resolved job on this node: everything that is the same in every generation.
struct Plan {
  Options options;  ///< with a random run_id for --standalone
  LocalWorldSize local_world_size{1};
  std::vector<std::string> command;  ///< argv of a worker, before ${local_rank} is filled in
  /// Why `command` cannot be run; it is empty then. Only where a fixed number of nodes waits for this one:
  /// it joins, so that all hear of it.
  std::optional<Error> cannot_start;
  std::string title;  ///< what reports call the job: the entry point as typed
  MeetingPlace meeting;
  std::string log_root;  ///< <log_dir>/<run_id>_<random>, absolute; empty: --log-dir /dev/null, no files
  /// No --log-dir: the agent removes what is empty in it when the job succeeds.
  bool log_root_is_temporary = false;
  std::string job_tag;        ///< unique to this invocation, in every worker's environment
  bool keeps_memory = false;  ///< what a worker has in memory outlives it (KeptFiles): a job file wants it
  std::vector<std::string> kept_memory{};  ///< by local rank, what DDPRUN_KEPT_MEMORY says; empty: none
  std::vector<std::vector<int>> cpus;      ///< CPUs of each local rank; empty: not bound
  HostFacts host;
};

/// Where one stream of a worker goes. Neither: /dev/null.
struct StreamSpec {
  bool to_file = false;    ///< <log_dir>/stdout.log or stderr.log
  bool to_console = true;  ///< ddprun's own stdout or stderr
  std::string prefix;      ///< before each console line; empty: the bytes pass as they are
};

/// One process to start, complete: agent/worker_group.cc makes a SpawnRequest (process/spawn.h) of it, and decides
/// nothing.
struct WorkerSpec {
  LocalRank local_rank;
  Rank rank;
  std::optional<Error> cannot_start;     ///< Plan's
  std::vector<std::string> argv;         ///< argv[0] is an absolute path, or relative with a slash
  std::vector<std::string> environment;  ///< "NAME=value", complete
  std::vector<int> cpus;                 ///< empty: not bound
  /// <log_root>/attempt_N/<local_rank> for stdout.log, stderr.log, error.json; empty: none.
  std::string log_dir;
  std::string error_file;  ///< what TORCHELASTIC_ERROR_FILE says; empty: none
  StreamSpec out;
  StreamSpec err;
  bool inherit_stdin = false;  ///< otherwise /dev/null
};

/// A fixed number of nodes waits for this one: if it cannot start, it joins and says so (Plan::cannot_start).
bool is_waited_for(const Options& options);

/// Resolves options against the host and checks what can be checked before anything starts: the program is
/// there (kNotFound: exit 127; see Plan::cannot_start), a number of workers that this machine can hold, files
/// that can be written. `random_suffix` makes the log directory's name and the job tag unique. Errors kUsage,
/// kNotFound or kOs; the message names the flag, the value, what is allowed and the next step.
Result<Plan> make_plan(const Options& options, const HostFacts& host, const std::string& random_suffix);

/// A GPU for each worker of this node, as nccl needs; kUsage otherwise. make_plan has asked it when the
/// command line says nccl or gpu; for a job file that says so, ask again.
Result<void> check_gpus(const Plan& plan);

/// The workers of this node in one generation.
std::vector<WorkerSpec> worker_specs(const Plan& plan, const membership::Round& round);

/// The round of a job on this node alone, for --dry-run and as the agent's start.
membership::Round single_node_round(const Plan& plan, Port port);

/// The first round as far as it is known before it: with a fixed rank and as many workers on each node as
/// here; else as node 0 of the most nodes. For one node, single_node_round.
membership::Round expected_round(const Plan& plan);

/// <log_root>/attempt_<restart count>; empty when there are no log files.
std::string attempt_directory(const Plan& plan, Generation generation);

/// --dry-run's text: argv, environment (what differs from ours), CPUs and devices of each worker.
std::string describe(const Plan& plan, const std::vector<WorkerSpec>& workers);

/// What it says of several nodes: "2, this is node 1; they meet at node-a port 29500, where node 0 listens".
std::string describe_meeting(const Plan& plan);

}  // namespace ddprun::launcher
