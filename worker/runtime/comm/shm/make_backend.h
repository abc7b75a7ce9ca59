#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <string>

namespace ddprun::runtime {

/// What a shared-memory backend is made from.
struct ShmOptions {
  c10::intrusive_ptr<c10d::Store> store;  ///< seen by these ranks only, with no key of an earlier group
  int rank = 0;
  int world_size = 1;
  std::chrono::milliseconds timeout{
      std::chrono::minutes(30)};  ///< of one collective; may be changed per call
  std::string name = "world";     ///< of the group
};

/// A c10d backend over shared memory, for CPU tensors of ranks on one host.
///
/// Collective over the ranks of `options`. Throws ddprun::Exception (kUnavailable) when some rank cannot map
/// the segment, with the same text on every rank, so that all can fall back to gloo together.
c10::intrusive_ptr<c10d::Backend> make_shm_backend(const ShmOptions& options);

}  // namespace ddprun::runtime
