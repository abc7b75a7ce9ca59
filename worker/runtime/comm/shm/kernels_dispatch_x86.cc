#include "worker/runtime/comm/shm/kernels_isa.h"

namespace ddprun::runtime::shm {

const Kernels* find_kernels(DType dtype, ReduceOp op) {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return v4::find_kernels(dtype, op);
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) return v3::find_kernels(dtype, op);
  return generic::find_kernels(dtype, op);
}

}  // namespace ddprun::runtime::shm
