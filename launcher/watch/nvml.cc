#include "launcher/watch/nvml.h"

#include "rendezvous/base/clock.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace ddprun::launcher::watch {
namespace {

// As the NVML API Reference of docs.nvidia.com has them.
using Device = void*;
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlInsufficientSize = 7;
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

/// Used by one thread. It stays open until the process ends, since that thread may be in it then.
class NvmlLibrary {
 public:
  NvmlLibrary() : handle_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    has_all_ = handle_ != nullptr && find("nvmlInit_v2", init_) && find("nvmlDeviceGetCount_v2", count_) &&
               find("nvmlDeviceGetHandleByIndex_v2", device_) && find("nvmlDeviceGetMinorNumber", minor_) &&
               find("nvmlDeviceGetUUID", uuid_) && find("nvmlDeviceGetUtilizationRates", utilization_) &&
               find("nvmlDeviceGetMemoryInfo", memory_) &&
               find("nvmlDeviceGetComputeRunningProcesses", processes_);
  }
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  [[nodiscard]] bool has_all() const { return has_all_; }

  std::vector<GpuReading> read() {
    if (!std::exchange(is_tried_, true)) is_open_ = init_() == kNvmlSuccess;
    std::vector<GpuReading> readings;
    unsigned all = 0;
    if (!is_open_ || count_(&all) != kNvmlSuccess) return readings;
    for (unsigned index = 0; index < all; ++index) {
      Device gpu = nullptr;
      readings.push_back(device_(index, &gpu) == kNvmlSuccess ? reading_of(gpu) : GpuReading{});
    }
    return readings;
  }

 private:
  template <class Function>
  bool find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
    return function != nullptr;
  }

  [[nodiscard]] GpuReading reading_of(Device gpu) const {
    GpuReading reading;
    unsigned number = 0;
    if (minor_(gpu, &number) == kNvmlSuccess) reading.minor = static_cast<int>(number);
    std::array<char, 96> text{};
    if (uuid_(gpu, text.data(), text.size() - 1) == kNvmlSuccess) reading.uuid = text.data();
    NvmlUtilization rates;
    if (utilization_(gpu, &rates) == kNvmlSuccess) reading.utilization = rates.gpu / 100.0;
    NvmlMemory bytes;
    if (memory_(gpu, &bytes) == kNvmlSuccess) reading.memory = bytes.used;
    reading.processes = processes_on(gpu);
    return reading;
  }

  [[nodiscard]] std::vector<pid_t> processes_on(Device gpu) const {
    unsigned all = 64;
    std::vector<NvmlProcess> found(all);
    int result = processes_(gpu, &all, found.data());
    if (result == kNvmlInsufficientSize) {  // `all` is how many there are
      found.resize(all);
      result = processes_(gpu, &all, found.data());
    }
    std::vector<pid_t> pids;
    if (result != kNvmlSuccess) return pids;
    found.resize(std::min<std::size_t>(found.size(), all));
    for (const NvmlProcess& process : found) pids.push_back(static_cast<pid_t>(process.pid));
    return pids;
  }

  void* handle_;
  bool has_all_ = false;
  bool is_tried_ = false;
  bool is_open_ = false;
  int (*init_)() = nullptr;
  int (*count_)(unsigned*) = nullptr;
  int (*device_)(unsigned, Device*) = nullptr;
  int (*minor_)(Device, unsigned*) = nullptr;
  int (*uuid_)(Device, char*, unsigned) = nullptr;
  int (*utilization_)(Device, NvmlUtilization*) = nullptr;
  int (*memory_)(Device, NvmlMemory*) = nullptr;
  int (*processes_)(Device, unsigned*, NvmlProcess*) = nullptr;
};

/// Never destroyed, as its thread never ends.
struct GpuReader {
  NvmlLibrary library{};
  std::mutex mutex{};
  std::condition_variable changed{};
  bool has_thread = false;
  std::uint64_t wanted = 0;
  std::uint64_t answered = 0;
  TimePoint answered_at{};
  std::vector<GpuReading> readings{};

  /// False: the process may have no more threads.
  bool start() {
    try {
      if (!has_thread) std::thread([this] { work(); }).detach();
      return has_thread = true;
    } catch (const std::system_error&) {
      return false;
    }
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return wanted > answered; });
      const std::uint64_t number = wanted;
      lock.unlock();
      std::vector<GpuReading> now = library.read();
      lock.lock();
      readings = std::move(now);
      answered = number;
      answered_at = BootClock::now();
      changed.notify_all();
    }
  }
};

GpuReader& gpu_reader() {
  static auto* const reader = new GpuReader;
  return *reader;
}

}  // namespace

std::vector<GpuReading> read_gpus() {
  constexpr std::chrono::milliseconds kPatience{300};
  constexpr std::chrono::seconds kYoung{5};
  GpuReader& reader = gpu_reader();
  if (!reader.library.has_all()) return {};
  std::unique_lock lock(reader.mutex);
  if (!reader.start()) return {};
  const std::uint64_t number = ++reader.wanted;
  reader.changed.notify_all();
  reader.changed.wait_for(lock, kPatience, [&] { return reader.answered >= number; });
  const bool is_young = reader.answered > 0 && BootClock::now() - reader.answered_at < kYoung;
  return is_young ? reader.readings : std::vector<GpuReading>();
}

bool is_reading_gpus() {
  GpuReader& reader = gpu_reader();
  const std::lock_guard lock(reader.mutex);
  return reader.wanted > reader.answered;
}

}  // namespace ddprun::launcher::watch
