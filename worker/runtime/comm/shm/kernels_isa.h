#pragma once

#include "worker/runtime/comm/shm/kernels.h"

namespace ddprun::runtime::shm {

/// The copies of kernels.cc, one per instruction set; kernels_dispatch*.cc choose between those that were
/// built.
namespace generic {
const Kernels* find_kernels(DType dtype, ReduceOp op);
}
/// x86-64-v3: AVX2
namespace v3 {
const Kernels* find_kernels(DType dtype, ReduceOp op);
}
/// x86-64-v4: AVX-512
namespace v4 {
const Kernels* find_kernels(DType dtype, ReduceOp op);
}

}  // namespace ddprun::runtime::shm
