#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <optional>

namespace ddprun::runtime {

/// Brings the tensors of a forward's inputs to the module's device.
///
/// Streams  to a GPU they are copied on a stream of this object's, which the current one waits for, so that
///          the copy runs beside what is still under way there. torch/distributed/utils.py, _recursive_to.
/// Threads  one at a time.
class InputPlacement {
 public:
  explicit InputPlacement(at::Device device) : device_(device) {}

  /// `tensor` itself where nothing is to be done, and where it is undefined.
  at::Tensor place(const at::Tensor& tensor);

 private:
  at::Tensor copy_beside(const at::Tensor& tensor);

  at::Device device_;
  std::optional<c10::Stream> copies_;
};

}  // namespace ddprun::runtime
