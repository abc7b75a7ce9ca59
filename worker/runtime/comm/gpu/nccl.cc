// With cuda_graph.cc the only file that sees CUDA or NCCL. Built into libddprun_nccl.so where their headers are.
#include "worker/runtime/comm/gpu/plugin_entry.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <cstdio>

namespace ddprun::runtime {

int ddprun_gpu_count() { return c10::cuda::device_count(); }

void ddprun_gpu_id(int gpu, char* text) {
  const auto& uuid = at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(gpu))->uuid;
  for (const char byte : uuid.bytes) text += std::snprintf(text, 3, "%02x", static_cast<unsigned char>(byte));
}

c10d::Backend* ddprun_make_nccl_backend(const BackendRequest* request, int gpu) {
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(gpu));
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = request->timeout;
  options->group_name = request->name;
  options->global_ranks_in_group = request->ranks;
  auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(request->store, request->rank,
                                                             request->world_size, options);
  return backend.release();
}

}  // namespace ddprun::runtime
