#pragma once

#include <ATen/core/Tensor.h>

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

/// The gradients that are there.
inline std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

}  // namespace ddprun::runtime
