#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <vector>

// Collectives whose one tensor holds the parts of all ranks, by the name that this libtorch's ProcessGroup has
// them under: 2.11 knows only the old names, 2.15 deprecates them.

namespace ddprun::runtime {

template <class ProcessGroup>
auto all_gather_single(ProcessGroup& group, at::Tensor& output, at::Tensor& input) {
  if constexpr (requires { group.all_gather_single(output, input); }) {
    return group.all_gather_single(output, input);
  } else {
    return group._allgather_base(output, input);
  }
}

template <class ProcessGroup>
auto all_gather_single_coalesced(ProcessGroup& group, std::vector<at::Tensor>& outputs,
                                 std::vector<at::Tensor>& inputs) {
  if constexpr (requires { group.all_gather_single_coalesced(outputs, inputs); }) {
    return group.all_gather_single_coalesced(outputs, inputs);
  } else {
    return group.allgather_into_tensor_coalesced(outputs, inputs);
  }
}

template <class ProcessGroup>
auto reduce_scatter_single(ProcessGroup& group, at::Tensor& output, at::Tensor& input,
                           const c10d::ReduceScatterOptions& options) {
  if constexpr (requires { group.reduce_scatter_single(output, input, options); }) {
    return group.reduce_scatter_single(output, input, options);
  } else {
    return group._reduce_scatter_base(output, input, options);
  }
}

template <class ProcessGroup>
auto reduce_scatter_single_coalesced(ProcessGroup& group, std::vector<at::Tensor>& outputs,
                                     std::vector<at::Tensor>& inputs,
                                     const c10d::ReduceScatterOptions& options) {
  if constexpr (requires { group.reduce_scatter_single_coalesced(outputs, inputs, options); }) {
    return group.reduce_scatter_single_coalesced(outputs, inputs, options);
  } else {
    return group.reduce_scatter_tensor_coalesced(outputs, inputs, options);
  }
}

template <class ProcessGroup>
auto all_to_all_single(ProcessGroup& group, at::Tensor& output, at::Tensor& input,
                       std::vector<std::int64_t>& output_splits, std::vector<std::int64_t>& input_splits) {
  if constexpr (requires { group.all_to_all_single(output, input, output_splits, input_splits); }) {
    return group.all_to_all_single(output, input, output_splits, input_splits);
  } else {
    return group.alltoall_base(output, input, output_splits, input_splits);
  }
}

}  // namespace ddprun::runtime
