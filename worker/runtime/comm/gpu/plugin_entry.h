#pragma once

#include "worker/runtime/comm/backend/backend_request.h"
#include "worker/runtime/comm/gpu/recording.h"

#include <functional>

namespace ddprun::runtime {

/// What libddprun_nccl.so exports, found by dlsym under these names.
extern "C" {
int ddprun_gpu_count();
/// 32 hexadecimal digits that tell this GPU (or slice of one) from all others, and a zero byte.
void ddprun_gpu_id(int gpu, char* text);
/// A new reference to the backend, for intrusive_ptr::reclaim.
c10d::Backend* ddprun_make_nccl_backend(const ddprun::runtime::BackendRequest* request, int gpu);
/// For unique_ptr; as a Recorder, on a stream of the pool.
ddprun::runtime::Recording* ddprun_record_graph(const std::function<void()>* work);
}

using GpuCountFunction = decltype(&ddprun_gpu_count);
using GpuIdFunction = decltype(&ddprun_gpu_id);
using MakeNcclBackendFunction = decltype(&ddprun_make_nccl_backend);
using RecordGraphFunction = decltype(&ddprun_record_graph);

}  // namespace ddprun::runtime
