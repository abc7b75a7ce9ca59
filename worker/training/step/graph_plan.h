#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace ddprun::training {

/// Steps of a form before it is recorded. PyTorch's rule: DDP looks at the times of its first ten backwards, with
/// events that no graph can hold.
inline constexpr std::int64_t kStepsBeforeGraph = 11;

/// Sizes and type of each tensor of a batch: a graph is of one form.
using BatchForm = std::vector<std::pair<std::vector<std::int64_t>, c10::ScalarType>>;

enum class GraphMove {
  kEager,   ///< compute as without a graph
  kRecord,  ///< record the step, which computes nothing, and replay it
  kReplay,
};

/// Which steps are computed, recorded and replayed. The form of which so many steps have been computed first is the one
/// that is recorded; steps of other forms, as an epoch's last, smaller one, are computed for ever.
class GraphPlan {
 public:
  /// warm_up_steps  before which libtorch still makes what a graph must find made
  explicit GraphPlan(std::int64_t warm_up_steps) : warm_up_steps_(warm_up_steps) {}

  /// What to do with a batch of `form`; afterwards it counts as done.
  GraphMove next(const BatchForm& form);

 private:
  std::int64_t warm_up_steps_;
  std::map<BatchForm, std::int64_t> computed_;  ///< steps by form, until one is recorded
  BatchForm recorded_;                          ///< empty: none yet
};

}  // namespace ddprun::training
