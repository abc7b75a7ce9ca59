#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/rref_interface.h>
#include <torch/csrc/distributed/rpc/message.h>

#include <cstddef>
#include <vector>

namespace ddprun::runtime {

/// Bytes of a message as it travels. Throws Exception kConfig for a tensor that libtorch would end the process for.
std::size_t size_of(const torch::distributed::rpc::Message& message);

using RRefPtr = c10::intrusive_ptr<c10::RRefInterface>;
/// Of `values` and all that they hold.
std::vector<RRefPtr> references_in(const std::vector<c10::IValue>& values);

/// Bytes of what `values` hold beside references. These count at their owner once they are pickled, and only who
/// receives them can give them back: what has to be refused is refused before. Throws what pickling them throws.
std::size_t size_without_references(const std::vector<c10::IValue>& values);

}  // namespace ddprun::runtime
