#pragma once

#include "tests/integration/shm/processes.h"
#include "tests/support/catch.h"
#include "worker/runtime/comm/backends.h"
#include <ddprun/group.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace ddprun::testing {

/// Runs `body` in `size` processes that are one world over `backend`; true when no rank has failed.
inline bool in_world(const std::string& backend, int size, const std::function<void(const Group&)>& body,
                     std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  return in_processes(size, [&](int rank, const c10::intrusive_ptr<c10d::Store>& store) {
    const runtime::BackendRequest request{.store = c10::make_intrusive<c10d::PrefixStore>("world", store),
                                          .rank = rank,
                                          .world_size = size,
                                          .timeout = timeout};
    const auto group = runtime::make_group(request, runtime::parse_backends(backend, false).value(), -1);
    body(Group(group));
    group->barrier()->wait();
  });
}

/// What `call` throws, with the code in front; "nothing" if it returns.
inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Exception& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "nothing";
}

inline void require_equal(const std::string& is, const std::string& should_be) {
  require(is == should_be, "is:        " + is + "\n    should be: " + should_be);
}

}  // namespace ddprun::testing
