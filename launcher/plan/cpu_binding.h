#pragma once

#include "launcher/cli/options.h"
#include "launcher/plan/host.h"
#include "rendezvous/base/ids.h"
#include "rendezvous/base/result.h"

#include <string>
#include <vector>

namespace ddprun::launcher {

/// The CPUs of each local rank for --numa-binding: those near GPU `local_rank`, or, where there are no GPUs,
/// of the NUMA node that local rank falls on when the ranks are spread evenly.
///
///   kNode         all CPUs of that NUMA node
///   kSocket       all CPUs of that node's socket
///   kExclusive    an equal share of that node's physical cores; no two ranks share one
///   kCoreComplex  the CPUs under one last-level cache of that node, another one for each rank where there
///                 are enough
///
/// Errors  kUsage: a machine whose sysfs does not tell its topology, too few cores for kExclusive.
Result<std::vector<std::vector<int>>> bind_cpus(NumaBinding binding, const HostFacts& host,
                                                LocalWorldSize ranks);

}  // namespace ddprun::launcher
