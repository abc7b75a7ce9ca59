#include "worker/runtime/comm/shm/kernels_isa.h"

namespace ddprun::runtime::shm {

const Kernels* find_kernels(DType dtype, ReduceOp op) { return generic::find_kernels(dtype, op); }

}  // namespace ddprun::runtime::shm
