#pragma once

#include <cstdint>

namespace ddprun::data {

/// A source of files that may leave out those that are damaged.
class LeavesOutDamaged {
 public:
  virtual ~LeavesOutDamaged() = default;
  LeavesOutDamaged() = default;
  LeavesOutDamaged(const LeavesOutDamaged&) = delete;
  LeavesOutDamaged& operator=(const LeavesOutDamaged&) = delete;

  /// How many it has left out so far, in this process, each counted once.
  [[nodiscard]] virtual std::int64_t left_out() const = 0;
};

}  // namespace ddprun::data
