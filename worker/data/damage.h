#pragma once

#include <ddprun/trainer/data_source.h>

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

/// Of `source`; 0 of one that leaves none out.
[[nodiscard]] inline std::int64_t left_out_by(const DataSource& source) {
  const auto* damage = dynamic_cast<const LeavesOutDamaged*>(&source);
  return damage == nullptr ? 0 : damage->left_out();
}

}  // namespace ddprun::data
