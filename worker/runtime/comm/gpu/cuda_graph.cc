// A CUDA graph, the second file of libddprun_nccl.so.
#include "worker/runtime/comm/gpu/plugin_entry.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>

namespace ddprun::runtime {
namespace {

class CudaGraph final : public Recording {
 public:
  explicit CudaGraph(const std::function<void()>& work) {
    c10::cuda::device_synchronize();
    // Not global: the watchdog of a process group may ask for events meanwhile.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      end_quietly();
      throw;
    }
    graph_.capture_end();
  }

  void replay() override { graph_.replay(); }

 private:
  // What failed is what has to be told, not that the recording is of no use either.
  void end_quietly() noexcept {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {
    }
  }

  at::cuda::CUDAGraph graph_;
};

}  // namespace

Recording* ddprun_record_graph(const std::function<void()>* work) { return new CudaGraph(*work); }

}  // namespace ddprun::runtime
