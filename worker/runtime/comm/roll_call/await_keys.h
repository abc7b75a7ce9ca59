#pragma once

#include "rendezvous/base/clock.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace ddprun::runtime {

/// How long to sleep before the next look, after so long a wait: an eighth of it, so that no wait takes more than an
/// eighth longer than it has to, from 0.2 ms up to 100 ms, which 1,000 ranks at once make 10,000 questions a second.
[[nodiscard]] Duration pause_after(Duration waited);

/// True when the store has all `keys`, false when `timeout` is over first. Asks from time to time: c10d::TCPStore::wait
/// and get keep the client's one lock until the key is there, and whoever shares the client waits with them, maybe for
/// the very rank that would set the key.
/// Threads  any.
/// Errors   what the store throws.
[[nodiscard]] bool await_keys(c10d::Store& store, const std::vector<std::string>& keys,
                              std::chrono::milliseconds timeout);

}  // namespace ddprun::runtime
