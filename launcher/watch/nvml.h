#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::watch {

/// A GPU at one moment.
struct GpuReading {
  int minor = -1;  ///< of /dev/nvidia<minor>
  std::string uuid;
  std::optional<double> utilization{};  ///< share of the last second or less in which anything ran on it
  std::uint64_t memory = 0;             ///< bytes in use, by anybody
  std::vector<pid_t> processes{};       ///< that compute on it, as the host numbers them
};

/// By their indices, from NVIDIA's management library, which comes with the driver and is looked for at the first call;
/// none without it. What it said last is taken for five seconds where it does not answer within 300 ms.
///
/// Threads  one of its own for as long as the process lives, which the first call starts where there is a GPU: a call
///          into the driver takes seconds where a GPU is ill, or never returns. Called by one thread at a time.
std::vector<GpuReading> read_gpus();

/// Whether that thread is in the driver: a process that ends then may not be rid of it.
bool is_reading_gpus();

}  // namespace ddprun::launcher::watch
