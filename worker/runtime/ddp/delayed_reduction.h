#pragma once

#include <ddprun/group.h>
#include <ddprun/module_view.h>

#include <vector>

namespace ddprun::runtime {

/// Parameters whose gradients live in one flat buffer for each device and dtype and are averaged in one all-reduce
/// of each, when the backward ends that computes the gradient of a chosen parameter. A gradient that is somewhere
/// else by then, because it was reset after the forward, is taken from there. Python's
/// delay_all_reduce_named_params.
class DelayedReduction {
 public:
  /// Sends nothing: the parameters have to be equal on all ranks.
  DelayedReduction(Group group, std::vector<ModuleView::Parameter> parameters, at::Tensor trigger);
  ~DelayedReduction();
  DelayedReduction(const DelayedReduction&) = delete;
  DelayedReduction& operator=(const DelayedReduction&) = delete;

  /// Points `grad()` of every delayed parameter into its buffer; zeroes those that were reset. After each
  /// forward.
  void attach_gradients();
  void set_group(Group group) { group_ = std::move(group); }

 private:
  void reduce();
  /// Makes `grad()` of every parameter its part of the buffer, with the same values; none is zeros.
  void collect_gradients();

  Group group_;
  std::vector<ModuleView::Parameter> parameters_;
  std::vector<at::Tensor> buffers_;  ///< flat, of one device and dtype each
  std::vector<at::Tensor> views_;    ///< into them, one for each parameter
  at::Tensor trigger_;
  unsigned hook_ = 0;
};

}  // namespace ddprun::runtime
