#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
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

/// NVIDIA's management library. It comes with the driver and is looked for when this is made; without it, or without a
/// GPU, there is nothing to read.
///
/// Threads  one, from the first `read` on: where a GPU is ill a call into the driver takes seconds, or does not return.
///          It is not waited for when this is destroyed.
class Nvml {
 public:
  Nvml();
  ~Nvml();
  Nvml(Nvml&&) noexcept;
  Nvml& operator=(Nvml&&) noexcept;

  /// By their indices; none where the driver has not answered within 300 ms.
  [[nodiscard]] std::vector<GpuReading> read() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  ///< null: there is none
};

}  // namespace ddprun::launcher::watch
