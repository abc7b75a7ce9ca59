#include "launcher/watch/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace ddprun::launcher::watch {
namespace {

// As the NVML API Reference of docs.nvidia.com has them.
using Device = void*;
constexpr int kNvmlSuccess = 0;
struct NvmlUtilization {
  unsigned gpu = 0;  // percent
  unsigned memory = 0;
};
struct NvmlMemory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};
struct NvmlProcess {  // of the functions without a version in their names, which every driver has
  unsigned pid = 0;
  unsigned long long used = 0;
};

}  // namespace

struct Nvml::Library {
  void* handle = nullptr;
  bool is_ready = false;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*device)(unsigned, Device*) = nullptr;
  int (*minor)(Device, unsigned*) = nullptr;
  int (*uuid)(Device, char*, unsigned) = nullptr;
  int (*utilization)(Device, NvmlUtilization*) = nullptr;
  int (*memory)(Device, NvmlMemory*) = nullptr;
  int (*processes)(Device, unsigned*, NvmlProcess*) = nullptr;

  Library() : handle(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    const bool has_all =
        handle != nullptr && find("nvmlInit_v2", init) && find("nvmlShutdown", shutdown) &&
        find("nvmlDeviceGetCount_v2", count) && find("nvmlDeviceGetHandleByIndex_v2", device) &&
        find("nvmlDeviceGetMinorNumber", minor) && find("nvmlDeviceGetUUID", uuid) &&
        find("nvmlDeviceGetUtilizationRates", utilization) && find("nvmlDeviceGetMemoryInfo", memory) &&
        find("nvmlDeviceGetComputeRunningProcesses", processes);
    is_ready = has_all && init() == kNvmlSuccess;
  }
  ~Library() {
    if (is_ready) shutdown();
    if (handle != nullptr) ::dlclose(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <class Function>
  bool find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(::dlsym(handle, name));
    return function != nullptr;
  }

  [[nodiscard]] GpuReading read(Device gpu) const {
    GpuReading reading;
    unsigned number = 0;
    if (minor(gpu, &number) == kNvmlSuccess) reading.minor = static_cast<int>(number);
    std::array<char, 96> text{};
    if (uuid(gpu, text.data(), text.size() - 1) == kNvmlSuccess) reading.uuid = text.data();
    NvmlUtilization rates;
    if (utilization(gpu, &rates) == kNvmlSuccess) reading.utilization = rates.gpu / 100.0;
    NvmlMemory bytes;
    if (memory(gpu, &bytes) == kNvmlSuccess) reading.memory = bytes.used;
    std::array<NvmlProcess, 64> found{};
    unsigned all = found.size();
    if (processes(gpu, &all, found.data()) == kNvmlSuccess) {
      for (std::size_t i = 0; i < std::min<std::size_t>(all, found.size()); ++i)
        reading.processes.push_back(static_cast<pid_t>(found[i].pid));
    }
    return reading;
  }
};

Nvml::Nvml() : library_(std::make_unique<Library>()) {
  if (!library_->is_ready) library_.reset();
}

Nvml::~Nvml() = default;
Nvml::Nvml(Nvml&&) noexcept = default;
Nvml& Nvml::operator=(Nvml&&) noexcept = default;

std::vector<GpuReading> Nvml::read() const {
  std::vector<GpuReading> readings;
  unsigned count = 0;
  if (!library_ || library_->count(&count) != kNvmlSuccess) return readings;
  for (unsigned index = 0; index < count; ++index) {
    Device gpu = nullptr;
    readings.push_back(library_->device(index, &gpu) == kNvmlSuccess ? library_->read(gpu) : GpuReading{});
  }
  return readings;
}

}  // namespace ddprun::launcher::watch
