#pragma once

#include <ddprun/comm_hooks.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace ddprun {
namespace runtime {

/// What both PowerSGD hooks are made of.

/// Makes the columns of each matrix of a batch [n, rows, columns] orthonormal, in place.
void orthogonalize(const at::Tensor& matrices, double epsilon);

/// Random numbers of a normal distribution: the same on every rank, others at each draw. The global generator
/// is left alone.
class SharedNoise {
 public:
  explicit SharedNoise(std::uint32_t seed) : twister_(seed) {}
  /// One draw, for all of them in order.
  void fill(const std::vector<at::Tensor>& tensors);

  /// Where it stands, as text, and one that goes on from there. Errors: Exception kCorrupt.
  [[nodiscard]] std::string state() const;
  [[nodiscard]] static SharedNoise from_state(const std::string& state);

 private:
  std::uint64_t next_seed();

  std::mt19937 twister_;
};

/// Of one bucket, from step to step; undefined at first.
struct LowRankMemory {
  at::Tensor error, p, q;
};

}  // namespace runtime

struct PowerSgdState::Data {
  Group group;
  PowerSgdOptions options;
  runtime::SharedNoise noise;
  std::map<std::int64_t, runtime::LowRankMemory> memory;  ///< by the bucket's index
  std::int64_t step = 0;
};

namespace runtime {

/// Makes what may have been loaded ready for a bucket like `buffer`; one that is undefined stays so.
/// Errors  Exception kConfig: it has not `elements` elements.
void fit(at::Tensor& memory, std::int64_t elements, const at::Tensor& buffer);

/// Averages the bucket's buffer in place.
using Compress = void (*)(PowerSgdState::Data& state, const c10d::GradBucket& bucket, LowRankMemory& memory);

/// Averages buckets plainly until start_step, and has them compressed from then on.
CommHook low_rank_hook(PowerSgdState state, Compress compress);

}  // namespace runtime
}  // namespace ddprun
