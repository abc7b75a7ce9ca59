#pragma once

#include <torch/csrc/distributed/c10d/reducer.hpp>

namespace ddprun::runtime {

/// Whether the reducer will reduce gradients that are computed now: from the forward that prepared it to the end of the
/// backward that reduces. Others it leaves to the rank alone, without a word.
[[nodiscard]] bool expects_gradients(const c10d::Reducer& reducer);

/// After the buckets of a reducer changed. It remembers the parameters of each bucket from its first rebuild on, "after
/// which this mapping never changes", for GradBucket::getParameters().
void forget_parameters_of_buckets(c10d::Reducer& reducer);

/// Whether they are made anew after the next backward, in the order of that: not where they are kept.
[[nodiscard]] bool keeps_buckets(const c10d::Reducer& reducer);
void keep_buckets(c10d::Reducer& reducer, bool on);

}  // namespace ddprun::runtime
