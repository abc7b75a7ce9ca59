#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_set>
#include <utility>
#include <vector>

namespace ddprun::runtime {

/// Tensors of one device and dtype each, in order of their first: what ATen's list operations take.
inline std::vector<std::vector<at::Tensor>> by_device_and_dtype(const std::vector<at::Tensor>& tensors) {
  std::vector<std::vector<at::Tensor>> lists;
  for (const at::Tensor& tensor : tensors) {
    std::size_t i = 0;
    while (i < lists.size() &&
           (lists[i][0].device() != tensor.device() || lists[i][0].scalar_type() != tensor.scalar_type())) {
      ++i;
    }
    if (i == lists.size()) lists.emplace_back();
    lists[i].push_back(tensor);
  }
  return lists;
}

/// The same without repetitions: tied weights, which libtorch's parameters() has twice and Python's once.
inline std::vector<at::Tensor> each_once(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> once;
  std::unordered_set<const void*> seen;
  for (const at::Tensor& tensor : tensors) {
    if (seen.insert(tensor.unsafeGetTensorImpl()).second) once.push_back(tensor);
  }
  return once;
}

/// On `device`. A copy from a GPU to the CPU that nobody waits for could be read before it is there.
inline at::Tensor copied_to(const at::Device& device, const at::Tensor& tensor) {
  return tensor.to(device, /*non_blocking=*/!device.is_cpu());
}

/// The gradients that are there, of each parameter once.
inline std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : each_once(parameters)) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

}  // namespace ddprun::runtime
