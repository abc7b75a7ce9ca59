#pragma once

#include "launcher/watch/nvml.h"

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::launcher::watch {

/// The GPUs of a rank at one moment.
struct GpuUse {
  std::optional<double> utilization{};  ///< share, the mean of its GPUs; nullopt: not told, as with MIG
  std::uint64_t memory = 0;             ///< bytes in use on them, by anybody
};

/// What of a process tells which GPUs are its own.
struct GpuHints {
  pid_t pid = 0;
  int local_rank = 0;
  std::set<int> opened{};  ///< minor numbers of the /dev/nvidia<minor> that it has open
  /// CUDA_VISIBLE_DEVICES of its environment: indices or UUIDs. Nullopt: not set.
  std::optional<std::string> visible{};
  bool is_in_container = false;  ///< in a pid namespace of its own, like whoever looks
};

/// The GPUs on which the process is known to compute. In a container the driver numbers processes otherwise: there it
/// is the GPU of its local rank among those that it may see, as programs take them, if it has any open. Nullopt: none.
std::optional<GpuUse> gpu_use(const std::vector<GpuReading>& gpus, const GpuHints& process);

/// Reads them from /proc.
GpuHints gpu_hints(pid_t pid, int local_rank);

}  // namespace ddprun::launcher::watch
