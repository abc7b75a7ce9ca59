#include "worker/runtime/ddp/bucket_plan.h"

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <limits>
#include <tuple>

namespace ddprun::runtime {
namespace {

std::int64_t bytes_of(double mebibytes) { return static_cast<std::int64_t>(mebibytes * 1024.0 * 1024.0); }

}  // namespace

BucketLimits bucket_limits(const DistributedDataParallelOptions& options) {
  BucketLimits limits;
  for (const double cap : options.bucket_cap_mb_list) limits.list.push_back(bytes_of(cap));
  if (!limits.list.empty()) {
    limits.first = limits.others = *std::max_element(limits.list.begin(), limits.list.end());
    limits.initial = {limits.list.begin(), limits.list.end()};
    return limits;
  }
  limits.others =
      options.bucket_cap_mb ? bytes_of(*options.bucket_cap_mb) : std::int64_t{c10d::kDefaultBucketBytesCap};
  limits.first = options.bucket_cap_mb ? limits.others : std::int64_t{c10d::kDefaultFirstBucketBytes};
  if (options.static_graph || !options.find_unused_parameters) {
    // Before the first backward the order of gradients is unknown: one bucket cannot be reduced too early.
    limits.initial = {std::numeric_limits<std::int64_t>::max()};
  } else if (options.bucket_cap_mb) {
    limits.initial = {static_cast<std::size_t>(limits.others)};
  } else {
    limits.initial = {static_cast<std::size_t>(limits.first), static_cast<std::size_t>(limits.others)};
  }
  return limits;
}

BucketOrder first_buckets(const BucketLimits& limits, const std::vector<at::Tensor>& parameters,
                          const std::vector<bool>& has_sparse_gradient) {
  BucketOrder buckets =
      std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, limits.initial, has_sparse_gradient));
  // Gradients come about in the reverse of the order in which parameters are used.
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

BucketOrder later_buckets(const BucketLimits& limits, const std::vector<at::Tensor>& parameters,
                          const std::vector<std::size_t>& ready) {
  std::vector<at::Tensor> tensors;
  std::vector<std::int64_t> places;
  for (const std::size_t place : ready) {
    tensors.push_back(parameters[place]);
    places.push_back(static_cast<std::int64_t>(place));
  }
  return std::get<0>(c10d::compute_bucket_assignment_by_size(
      tensors, {static_cast<std::size_t>(limits.first), static_cast<std::size_t>(limits.others)},
      /*expect_sparse_gradient=*/{}, places));
}

}  // namespace ddprun::runtime
