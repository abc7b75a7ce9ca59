#include "worker/training/step/graph_plan.h"

namespace ddprun::training {

GraphMove GraphPlan::next(const BatchForm& form) {
  if (!recorded_.empty()) return form == recorded_ ? GraphMove::kReplay : GraphMove::kEager;
  std::int64_t& computed = computed_[form];
  if (computed < warm_up_steps_) {
    ++computed;
    return GraphMove::kEager;
  }
  recorded_ = form;
  computed_.clear();
  return GraphMove::kRecord;
}

}  // namespace ddprun::training
