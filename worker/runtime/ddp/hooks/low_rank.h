#pragma once

#include <ddprun/comm_hooks.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace ddprun::runtime {

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

 private:
  std::uint64_t next_seed();

  std::mt19937 twister_;
};

/// A PowerSGD hook: averages buckets plainly until start_step, and has them compressed from then on.
class LowRankHook {
 public:
  /// Throws Exception kConfig for a start_step that comes before DDP has rebuilt its buckets.
  LowRankHook(Group group, const PowerSgdOptions& options);
  virtual ~LowRankHook() = default;
  LowRankHook(const LowRankHook&) = delete;
  LowRankHook& operator=(const LowRankHook&) = delete;

  c10::intrusive_ptr<c10::ivalue::Future> reduce(c10d::GradBucket& bucket);

 protected:
  /// Of one bucket, from step to step; undefined at first.
  struct Memory {
    at::Tensor error, p, q;
  };

  [[nodiscard]] const Group& group() const { return group_; }
  [[nodiscard]] const PowerSgdOptions& options() const { return options_; }
  [[nodiscard]] SharedNoise& noise() { return noise_; }

 private:
  /// Averages the bucket's buffer in place.
  virtual void compress_and_reduce(c10d::GradBucket& bucket, Memory& memory) = 0;

  Group group_;
  PowerSgdOptions options_;
  SharedNoise noise_;
  std::map<std::size_t, Memory> memory_;
  std::int64_t step_ = 0;
};

template <class Hook>
CommHook make_low_rank_hook(const Group& group, const PowerSgdOptions& options) {
  auto hook = std::make_shared<Hook>(group, options);
  return [hook](c10d::GradBucket& bucket) { return hook->reduce(bucket); };
}

}  // namespace ddprun::runtime
