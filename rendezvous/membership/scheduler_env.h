#pragma once

#include "rendezvous/base/env_contract.h"
#include "rendezvous/base/result.h"

#include <optional>
#include <string>

namespace ddprun::membership {

/// What a scheduler's environment says about the world: enough to launch without any rendezvous flag.
struct SchedulerWorld {
  std::string scheduler;  ///< "Slurm", "Open MPI"
  int nodes = 1;
  int node_rank = 0;
  std::string first_host;  ///< empty: it does not say (Open MPI), --master-addr is needed
  Port port;               ///< derived from the job's number, the same on all nodes
  std::string run_id;
};

/// Looks for one ddprun per node under `srun` (SLURM_JOB_ID, SLURM_STEP_NODELIST, SLURM_NODEID, SLURM_NNODES
/// with one task per node) or `mpirun` (OMPI_COMM_WORLD_RANK and _SIZE). nullopt: neither, or one node only.
/// Errors  kUsage: several tasks on a node (the numbers are named, and `--ntasks-per-node=1`), a node list
///         that cannot be read.
Result<std::optional<SchedulerWorld>> recognise_scheduler(const EnvLookup& lookup);

/// The first host of a Slurm node list: "n[3-5,9],m1" is n3, "rack-[007-010]-a" is rack-007-a. Empty: it
/// makes no sense.
std::string first_of_nodelist(const std::string& list);

}  // namespace ddprun::membership
