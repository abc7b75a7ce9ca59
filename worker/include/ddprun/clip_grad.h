#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

/// Clipping of gradients, torch.nn.utils.clip_grad: the same bits as Python's (libtorch's own C++ functions
/// divide where Python multiplies, and differ in the last bit), and no wait for the device.
///
/// Parameters without a gradient are passed over; the others may be of several dtypes and devices, and dense. One that
/// is given twice, as libtorch's parameters() gives tied weights, counts once.
/// Not collective: after DistributedDataParallel's backward every rank has the same gradients, so the same
/// norm. With a GradScaler call its unscale_() first.
/// Errors   Exception kConfig for a negative or NaN bound.
/// Threads  the caller's; gradients are changed in place.
/// Source   torch/nn/utils/clip_grad.py
namespace ddprun {

/// Scales all gradients so that the norm of them together is at most `max_norm`. Returns the norm before: a
/// scalar on the device of the first gradient, which nobody has waited for; .item() waits. A norm that is not
/// finite makes all gradients NaN or 0, unless `error_if_nonfinite`: that waits for the device.
/// Errors   Exception kConfig for such a norm; the gradients are as they were.
at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type = 2,
                           bool error_if_nonfinite = false);

/// The norm of the norms of `tensors`: a scalar, 0 of none.
[[nodiscard]] at::Tensor get_total_norm(const std::vector<at::Tensor>& tensors, double norm_type = 2,
                                        bool error_if_nonfinite = false);

/// The second half of clip_grad_norm_, for a norm that was computed otherwise (over ranks that hold different
/// shards).
void clip_grads_with_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                           const at::Tensor& total_norm);

/// Clamps every gradient to [-clip_value, clip_value].
void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value);

}  // namespace ddprun
