#include "tests/bench/gpu/on_card.h"
#include <ddprun/collectives.h>

#include <ATen/Functions.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAFunctions.h>
#include <nccl.h>

#include <memory>
#include <utility>

namespace ddprun::bench {
namespace {

constexpr int kStepsBeforeRecording = 3;  // optimizer state is there, cuDNN has chosen, caches are warm

void check(ncclResult_t result) { TORCH_CHECK(result == ncclSuccess, "NCCL: ", ncclGetErrorString(result)); }

struct Destroy {
  void operator()(ncclComm_t communicator) const { ncclCommDestroy(communicator); }
};
using Communicator = std::unique_ptr<std::remove_pointer_t<ncclComm_t>, Destroy>;

Communicator make_communicator(const Context& context) {
  ncclUniqueId id{};
  if (context.rank() == 0) check(ncclGetUniqueId(&id));
  broadcast(Group(context.process_group()),
            at::from_blob(&id, {static_cast<std::int64_t>(sizeof id)}, at::kByte));
  ncclComm_t communicator = nullptr;
  check(ncclCommInitRank(&communicator, context.world_size(), id, context.rank()));
  return Communicator(communicator);
}

}  // namespace

Step record_in_graph(Step step) {
  // All of them on one stream: a gradient is accumulated on the stream on which its first forward ran.
  const c10::StreamGuard on_stream(c10::cuda::getStreamFromPool());
  c10::cuda::device_synchronize();
  for (int i = 0; i < kStepsBeforeRecording; ++i) step();
  c10::cuda::device_synchronize();
  const auto graph = std::make_shared<at::cuda::CUDAGraph>();
  // Not global: the watchdog of a process group may ask for events meanwhile.
  graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  step();
  graph->capture_end();
  return [graph, step = std::move(step)] { graph->replay(); };
}

Step make_bare_all_reduce(const Context& context, const at::Tensor& tensor) {
  const std::shared_ptr<std::remove_pointer_t<ncclComm_t>> communicator = make_communicator(context);
  return [communicator, tensor] {
    void* const data = tensor.mutable_data_ptr();
    check(ncclAllReduce(data, data, static_cast<std::size_t>(tensor.numel()), ncclFloat, ncclSum,
                        communicator.get(), c10::cuda::getCurrentCUDAStream()));
  };
}

}  // namespace ddprun::bench
