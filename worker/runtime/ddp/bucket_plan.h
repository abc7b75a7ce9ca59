#pragma once

#include <ddprun/distributed_data_parallel.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddprun::runtime {

/// How large buckets of gradients may be, as Python's DistributedDataParallel has it; in bytes.
struct BucketLimits {
  std::vector<std::size_t> initial;  ///< before the first backward
  std::int64_t first = 0;
  std::int64_t others = 0;
  std::vector<std::int64_t> list;  ///< in place of the two, if not empty
};

BucketLimits bucket_limits(const DistributedDataParallelOptions& options);

/// The buckets before the first backward. Pure.
BucketOrder first_buckets(const BucketLimits& limits, const std::vector<at::Tensor>& parameters,
                          const std::vector<bool>& has_sparse_gradient);

/// Those that a reducer makes of it afterwards; `ready` are the parameters in the order in which their gradients were
/// computed then. None has a sparse gradient, and `limits` has no list. Pure.
BucketOrder later_buckets(const BucketLimits& limits, const std::vector<at::Tensor>& parameters,
                          const std::vector<std::size_t>& ready);

}  // namespace ddprun::runtime
