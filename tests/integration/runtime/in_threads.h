#pragma once

#include "tests/support/catch.h"
#include "worker/runtime/comm/backend/gloo.h"
#include <ddprun/group.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ddprun::testing {

inline std::mutex assertion_mutex;

/// CHECK for bodies of run_ranks: Catch2 is not made for several threads. The expression is evaluated outside
/// the lock, because it may be collective.
#define CHECK_IN_RANK(...)                                           \
  do {                                                               \
    const bool holds_ = static_cast<bool>(__VA_ARGS__);              \
    const std::lock_guard assertion_lock_(testing::assertion_mutex); \
    INFO(#__VA_ARGS__);                                              \
    CHECK(holds_);                                                   \
  } while (false)

/// libtorch's flight recorder is one for the process, and its table of groups has no lock (2.11): groups in several
/// threads would break it. It reads this with the first collective of the program, which may be one of a test without
/// threads.
inline const int recorder_is_off = ::setenv("TORCH_FR_BUFFER_SIZE", "0", 1);

/// Runs `body` as every rank of a world, each on a thread of its own and joined over gloo. An exception of a
/// rank is returned in its place, so that a test can look at each.
inline std::vector<std::exception_ptr> run_ranks(int world, const std::function<void(const Group&)>& body) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(world));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          constexpr std::chrono::seconds kPatience{30};
          auto backend = runtime::make_gloo_backend(
              {.store = store, .rank = rank, .world_size = world, .timeout = kPatience});
          // Who is done before another has connected would close what that one is connecting.
          store->set("connected/" + std::to_string(rank), std::vector<std::uint8_t>{1});
          std::vector<std::string> connected;
          for (int other = 0; other < world; ++other)
            connected.push_back("connected/" + std::to_string(other));
          store->wait(connected, kPatience);
          auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, world);
          group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, backend);
          group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
          body(Group(group));
        } catch (...) {
          failures[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
    }
  }
  return failures;
}

/// As above, where no rank may fail.
inline void run_ranks_to_success(int world, const std::function<void(const Group&)>& body) {
  for (const std::exception_ptr& failure : run_ranks(world, body)) {
    if (failure) std::rethrow_exception(failure);
  }
}

/// What the exception says, or "no exception".
inline std::string message_of(const std::exception_ptr& failure) {
  if (!failure) return "no exception";
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace ddprun::testing
