#include "launcher/plan/host.h"

#include "launcher/text/number_list.h"
#include "rendezvous/base/host_name.h"
#include "rendezvous/base/read_text.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;

int read_int(const fs::path& path) {
  const std::string text = read_text(path);
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool is_prefix_and_number(const std::string& name, std::string_view prefix) {
  return name.size() > prefix.size() && name.compare(0, prefix.size(), prefix) == 0 &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(prefix.size()), name.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<int> allowed_cpus() {
  // The kernel refuses a mask that is smaller than its own; 1,024 bits are not enough on the largest
  // machines.
  for (int bits = CPU_SETSIZE; bits <= CPU_SETSIZE * 64; bits *= 2) {
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(bits));
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(static_cast<std::size_t>(bits)),
                                                                [](cpu_set_t* set) { CPU_FREE(set); });
    if (sched_getaffinity(0, bytes, mask.get()) != 0) continue;
    std::vector<int> cpus;
    for (int cpu = 0; cpu < bits; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, mask.get())) cpus.push_back(cpu);
    }
    return cpus;
  }
  return {0};
}

int lowest_of(const fs::path& list_file, int fallback) {
  const std::vector<int> cpus = parse_number_list(read_text(list_file));
  return cpus.empty() ? fallback : *std::min_element(cpus.begin(), cpus.end());
}

int lowest_sharing_cache(const fs::path& cpu_directory, int fallback) {
  int best_level = -1;
  int lowest = fallback;
  for (const std::string& index : names_in(cpu_directory / "cache")) {
    if (!is_prefix_and_number(index, "index")) continue;
    const fs::path cache = cpu_directory / "cache" / index;
    const int level = read_int(cache / "level");
    if (level <= best_level) continue;
    best_level = level;
    lowest = lowest_of(cache / "shared_cpu_list", fallback);
  }
  return lowest;
}

void add_topology(std::vector<CpuFacts>& cpus) {
  std::map<int, int> node_of_cpu;
  for (const std::string& name : names_in("/sys/devices/system/node")) {
    if (!is_prefix_and_number(name, "node")) continue;
    for (const int cpu :
         parse_number_list(read_text(fs::path("/sys/devices/system/node") / name / "cpulist"))) {
      node_of_cpu[cpu] = std::atoi(name.c_str() + 4);
    }
  }
  for (CpuFacts& cpu : cpus) {
    const fs::path directory = "/sys/devices/system/cpu/cpu" + std::to_string(cpu.id);
    const auto node = node_of_cpu.find(cpu.id);
    cpu.numa_node = node == node_of_cpu.end() ? -1 : node->second;
    cpu.socket = read_int(directory / "topology/physical_package_id");
    cpu.core = lowest_of(directory / "topology/thread_siblings_list", cpu.id);
    cpu.cache = lowest_sharing_cache(directory, cpu.id);
  }
}

/// The NUMA node of every GPU in PCI order, which is CUDA's order for equal cards; by its UUID as well.
struct GpuPlaces {
  std::vector<int> by_index;
  std::map<std::string, int> by_uuid;
};

GpuPlaces gpu_places() {
  GpuPlaces places;
  for (const auto& [address, information] : read_gpu_cards()) {
    const int node = read_int(fs::path("/sys/bus/pci/devices") / address / "numa_node");
    places.by_index.push_back(node);
    const std::size_t uuid = information.find("GPU-");
    if (uuid != std::string::npos) {
      places.by_uuid[information.substr(uuid, information.find_first_of(" \n\t", uuid) - uuid)] = node;
    }
  }
  return places;
}

int numa_node_of(const std::string& device, const GpuPlaces& places) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(device.data(), device.data() + device.size(), index);
  if (error == std::errc{} && end == device.data() + device.size()) {
    return index < places.by_index.size() ? places.by_index[index] : -1;
  }
  const auto found = places.by_uuid.find(device);
  return found == places.by_uuid.end() ? -1 : found->second;
}

}  // namespace

std::vector<GpuCard> read_gpu_cards() {
  const std::string folder = "/proc/driver/nvidia/gpus/";
  std::vector<GpuCard> cards;
  for (const std::string& address : names_in(folder))
    cards.push_back({address, read_text(folder + address + "/information")});
  return cards;
}

int count_gpu_device_files() {
  int count = 0;
  for (const std::string& name : names_in("/dev")) count += is_prefix_and_number(name, "nvidia") ? 1 : 0;
  return count;
}

std::vector<std::string> parse_visible_devices(std::string_view text) {
  std::vector<std::string> devices;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view entry = text.substr(0, comma);
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
    if (entry.empty() || entry.front() == '-') break;  // CUDA stops at the first entry that names no device
    devices.emplace_back(entry);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return devices;
}

std::optional<std::string> HostFacts::env(std::string_view name) const {
  for (const auto& [key, value] : environment) {
    if (key == name) return value;
  }
  return std::nullopt;
}

std::string self_directory() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path().string();
}

HostFacts read_host(Topology topology) {
  HostFacts host;
  host.hostname = host_name();

  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      host.environment.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
  }

  for (const int cpu : allowed_cpus()) host.cpus.push_back({.id = cpu});
  if (topology == Topology::kRead) add_topology(host.cpus);

  const int device_files = count_gpu_device_files();
  const std::optional<std::string> visible = host.env("CUDA_VISIBLE_DEVICES");
  if (visible) {
    host.visible_devices = parse_visible_devices(*visible);
  } else {
    for (int gpu = 0; gpu < device_files; ++gpu) host.visible_devices.push_back(std::to_string(gpu));
  }
  // Without a device file there is no GPU, whatever the variable says.
  host.gpu_count = device_files == 0 ? 0 : static_cast<int>(host.visible_devices.size());
  if (topology == Topology::kRead && host.gpu_count > 0) {
    const GpuPlaces places = gpu_places();
    for (const std::string& device : host.visible_devices)
      host.gpu_numa_node.push_back(numa_node_of(device, places));
  }

  std::error_code ignored;
  host.self_directory = self_directory();
  host.working_directory = fs::current_path(ignored).string();
  const std::optional<std::string> temporary = host.env("TMPDIR");
  host.temporary_directory = temporary && !temporary->empty() ? *temporary : "/tmp";
  return host;
}

}  // namespace ddprun::launcher
