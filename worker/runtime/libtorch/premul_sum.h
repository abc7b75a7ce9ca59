#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>

namespace ddprun::runtime {

/// The sum of `factor` times what each rank has. c10d's own function for it is makeNCCLPreMulSum in
/// 2.11 and makePreMulSum in 2.15; the type's old name both know.
inline c10d::ReduceOp premul_sum(double factor) {
  c10d::ReduceOp op;
  op.op_ = c10d::ReduceOp::PREMUL_SUM;
  op.supplement_ = c10::make_intrusive<c10d::NCCLPreMulSumSupplement>(factor);
  return op;
}

}  // namespace ddprun::runtime
