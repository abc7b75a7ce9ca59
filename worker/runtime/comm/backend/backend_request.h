#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::runtime {

/// What every c10d backend is made from.
struct BackendRequest {
  c10::intrusive_ptr<c10d::Store> store;  ///< keys of this group only
  int rank = 0;
  int world_size = 1;
  /// All ranks are on this host.
  bool one_host = true;
  std::chrono::milliseconds timeout{};
  std::string name = "world";          ///< of the group, unique in the job
  std::vector<std::uint64_t> ranks{};  ///< the members by their ranks in the world; empty: the same
};

}  // namespace ddprun::runtime
