// What `ddprun ps --watch` needs of NVIDIA's management library, of a machine with two GPUs that are not there.
// FAKE_NVML names a file with a line for each: the pid of a process that computes on it, its utilization in percent
// (-1: as with MIG, not told; -2: it is ill, and does not answer), and the bytes in use.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace {

constexpr int kSuccess = 0, kNotSupported = 3, kNoDriver = 9;
constexpr std::size_t kGpus = 2;

struct Gpu {
  unsigned index = 0;
  unsigned pid = 0;
  int percent = 0;
  unsigned long long used = 0;
};

Gpu& read(std::size_t index) {
  static Gpu gpus[kGpus];
  std::ifstream file(std::getenv("FAKE_NVML"));
  for (std::size_t i = 0; i <= index; ++i) file >> gpus[i].pid >> gpus[i].percent >> gpus[i].used;
  gpus[index].index = static_cast<unsigned>(index);
  return gpus[index];
}

struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
struct Process {
  unsigned pid;
  unsigned long long used;
};

}  // namespace

extern "C" {
int nvmlInit_v2() { return std::getenv("FAKE_NVML") == nullptr ? kNoDriver : kSuccess; }
int nvmlShutdown() { return kSuccess; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = kGpus;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu** gpu) {
  *gpu = &read(index);
  return kSuccess;
}
int nvmlDeviceGetMinorNumber(const Gpu* gpu, unsigned* minor) {
  *minor = gpu->index;
  return kSuccess;
}
int nvmlDeviceGetUUID(const Gpu* gpu, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-%u", gpu->index);
  return kSuccess;
}
int nvmlDeviceGetUtilizationRates(const Gpu* gpu, Utilization* rates) {
  if (gpu->percent == -2) ::pause();
  if (gpu->percent < 0) return kNotSupported;
  *rates = {static_cast<unsigned>(gpu->percent), 0};
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(const Gpu* gpu, Memory* bytes) {
  *bytes = {1ULL << 40, 0, gpu->used};
  return kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses(const Gpu* gpu, unsigned* count, Process* processes) {
  *count = 1;
  processes[0] = {gpu->pid, gpu->used};
  return kSuccess;
}
}
