#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::runtime {

/// The steps at which the ranks came to a meeting.
struct Attendance {
  std::int64_t first = 0, last = 0;
};

/// Waits until every rank is here, and tells how far apart they are: on a GPU a rank may have begun more
/// steps than the others when it hears of the stop. Nothing when some rank has waited for `timeout` in vain:
/// the same on every rank, also on one that comes later. Collective through the store, under `prefix`, which
/// is of this meeting alone.
/// Errors  what the store throws.
std::optional<Attendance> meet(c10d::Store& store, const std::string& prefix, int rank, int world_size,
                               std::int64_t step, std::chrono::milliseconds timeout);

}  // namespace ddprun::runtime
