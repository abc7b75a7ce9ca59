#pragma once

#include <ddprun/comm_hooks.h>

#include <cstdint>
#include <random>
#include <vector>

namespace ddprun::runtime {

/// What both PowerSGD hooks are made of.

/// Throws Exception kConfig for a start_step that comes before DDP has rebuilt its buckets.
void check_start_step(const PowerSgdOptions& options);

/// Makes the columns of each matrix of a batch [n, rows, columns] orthonormal, in place.
void orthogonalize(const at::Tensor& matrices, double epsilon);

/// Random numbers of a normal distribution: the same on every rank, others at each draw. The global generator
/// is left alone.
class SharedNoise {
 public:
  explicit SharedNoise(std::uint32_t seed) : twister_(seed) {}
  /// One draw, for all of them in order.
  void fill(const std::vector<at::Tensor>& tensors);

 private:
  std::uint64_t next_seed();

  std::mt19937 twister_;
};

}  // namespace ddprun::runtime
