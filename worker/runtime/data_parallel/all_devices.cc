#include "worker/runtime/comm/gpu/plugin.h"
#include <ddprun/data_parallel.h>

namespace ddprun {

std::vector<at::Device> all_devices() {
  std::string why_not;
  int gpus = 0;
  if (runtime::is_gpu_plugin_built() && runtime::may_have_gpu()) gpus = runtime::open_gpu_plugin(&why_not);
  std::vector<at::Device> devices;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    devices.emplace_back(at::kCUDA, static_cast<c10::DeviceIndex>(gpu));
  }
  if (devices.empty()) devices.emplace_back(at::kCPU);
  return devices;
}

}  // namespace ddprun
