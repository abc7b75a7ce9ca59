#include "worker/training/step/cuda_graph_check.h"

#include <ddprun/exception.h>

#include <fmt/format.h>

namespace ddprun::training {

void check_cuda_graph(const c10::Device& device, const std::string& backend) {
  if (!device.is_cuda()) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("/train/cuda_graph: records what a GPU does, and this job runs on {}; set it to false, "
                    "or /device to \"cuda\" where there is one",
                    device.str()));
  }
  if (backend != "nccl") {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format(
            "/train/cuda_graph: the gradients go over {}, which waits for the host in the middle of a "
            "backward; give every rank a GPU of its own, so that it is nccl, or set it to false",
            backend));
  }
}

}  // namespace ddprun::training
