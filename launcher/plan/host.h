#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::launcher {

/// One logical CPU this process may run on, and what it shares with others; -1 when sysfs does not say.
struct CpuFacts {
  int id = 0;
  int numa_node = -1;
  int socket = -1;
  int core = -1;   ///< lowest CPU of the same physical core
  int cache = -1;  ///< lowest CPU that shares the last-level cache
};

/// What `plan` may know about this machine; filled by `read_host`, invented by tests.
struct HostFacts {
  std::string hostname;
  std::vector<CpuFacts> cpus;  ///< those of our affinity mask, ascending
  int gpu_count = 0;           ///< as CUDA_VISIBLE_DEVICES and /dev/nvidia* tell, without opening CUDA
  std::vector<std::string> visible_devices;  ///< entries of CUDA_VISIBLE_DEVICES, or "0", "1", …
  std::vector<int> gpu_numa_node;            ///< NUMA node of each visible device, -1 when unknown
  std::string self_directory;                ///< where this binary lies: ddprun-worker is looked for there
  std::string working_directory;             ///< absolute
  std::string temporary_directory;           ///< $TMPDIR or /tmp
  std::vector<std::pair<std::string, std::string>> environment;  ///< inherited by the workers

  [[nodiscard]] std::optional<std::string> env(std::string_view name) const;
};

/// A card, as NVIDIA's driver tells of it.
struct GpuCard {
  std::string address;      ///< on the PCI bus
  std::string information;  ///< lines such as "Model: \t\t NVIDIA H100 PCIe"
};
/// In PCI order, from /proc, without opening CUDA.
std::vector<GpuCard> read_gpu_cards();
/// How many /dev/nvidia<number> there are.
int count_gpu_device_files();

/// Where this binary lies.
std::string self_directory();

/// Whether NUMA nodes, sockets and caches are wanted: a few files per CPU, needed for --numa-binding only.
enum class Topology { kSkip, kRead };

/// Reads the facts from the system: no CUDA, no DNS.
HostFacts read_host(Topology topology);

/// The devices CUDA_VISIBLE_DEVICES names: like CUDA, up to the first entry that names none ("" or "-1").
std::vector<std::string> parse_visible_devices(std::string_view text);

}  // namespace ddprun::launcher
