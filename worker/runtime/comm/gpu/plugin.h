#pragma once

#include "worker/runtime/comm/backend/backend_request.h"
#include "worker/runtime/comm/gpu/recording.h"

#include <functional>
#include <memory>
#include <string>

namespace ddprun::runtime {

/// Everything that links CUDA and NCCL lives in libddprun_nccl.so, beside libddprun.so, and is opened when a
/// GPU is first wanted: a CPU job maps none of those libraries. It must be opened before anything asks
/// libtorch for a GPU, since libtorch remembers the answer.

/// True if this build has the shared object.
bool is_gpu_plugin_built();

/// True where the machine shows the device files of a GPU and CUDA_VISIBLE_DEVICES does not hide them all.
/// Cheap; opens nothing.
bool may_have_gpu();

/// Opens the shared object (once) and returns how many GPUs libtorch can use; 0 without any, or where it
/// cannot be opened: then `why` says why.
int open_gpu_plugin(std::string* why);

/// What tells GPU `gpu` of this process from every other GPU. The plug-in must be open.
std::string gpu_id(int gpu);

/// libtorch's nccl backend on GPU `gpu`. The plug-in must be open.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const BackendRequest& request, int gpu);

/// A Recorder for the current GPU: as a CUDA graph, whose memory is the graph's own. The current stream is none of
/// CUDA's default, and what `work` goes on from was begun on it. The plug-in must be open.
std::unique_ptr<Recording> record_graph(const std::function<void()>& work);

}  // namespace ddprun::runtime
