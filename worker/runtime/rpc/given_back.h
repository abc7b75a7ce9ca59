#pragma once

#include <torch/csrc/distributed/rpc/types.h>

#include <cstddef>
#include <deque>
#include <mutex>
#include <unordered_set>

namespace ddprun::runtime {

/// The references to values of this worker that were given back last, for libtorch ignores what comes before the call
/// that makes the reference: a caller gave it up while the call waited for its turn.
///
/// Threads  any.
class GivenBack {
 public:
  using Fork = torch::distributed::rpc::ForkId;

  explicit GivenBack(std::size_t at_most = 4096) : at_most_(at_most) {}

  /// Forgets the one that came first where there are too many.
  void add(const Fork& fork);
  /// Whether it was given back; forgets it.
  bool take(const Fork& fork);

 private:
  std::size_t at_most_;
  std::mutex mutex_;
  std::deque<Fork> in_order_;
  std::unordered_set<Fork, Fork::Hash> forks_;
};

}  // namespace ddprun::runtime
