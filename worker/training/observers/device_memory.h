#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace ddprun::training {

/// Bytes of a GPU that libtorch's allocator has taken, in use or kept for later: what nvidia-smi shows of this
/// process, but for what CUDA and NCCL take beside it. 0 of a CPU, and before the first tensor.
std::int64_t device_bytes(const c10::Device& device);

}  // namespace ddprun::training
