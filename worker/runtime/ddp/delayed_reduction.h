#pragma once

#include <ddprun/group.h>
#include <ddprun/module_view.h>

#include <vector>

namespace ddprun::runtime {

/// Parameters whose gradients live in one flat buffer and are averaged in one all-reduce, begun when the
/// gradient of a chosen parameter is computed and finished when the backward is. Python's
/// delay_all_reduce_named_params.
class DelayedReduction {
 public:
  /// Broadcasts the parameters from rank 0. Collective.
  DelayedReduction(Group group, std::vector<ModuleView::Parameter> parameters, at::Tensor trigger);
  ~DelayedReduction();
  DelayedReduction(const DelayedReduction&) = delete;
  DelayedReduction& operator=(const DelayedReduction&) = delete;

  /// Points `grad()` of every delayed parameter into the buffer; zeroes those that were reset. After each
  /// forward.
  void attach_gradients();
  void set_group(Group group) { group_ = std::move(group); }

 private:
  void reduce();

  Group group_;
  std::vector<ModuleView::Parameter> parameters_;
  at::Tensor buffer_;
  std::vector<at::Tensor> views_;
  at::Tensor trigger_;
  unsigned hook_ = 0;
};

}  // namespace ddprun::runtime
