#pragma once

#include "worker/training/state/position.h"

#include <cstddef>
#include <cstdint>
#include <deque>

namespace ddprun::training {

/// Where a job was at each of the checkpoints that are on their way to the disk, the oldest first. What is told of one
/// ends those before it: they are on the disk, have failed, or were left out.
class BeingSaved {
 public:
  void add(const Position& position) { positions_.push_back(position); }

  /// Of the checkpoint of `step`, which was added and is on the disk, perhaps under a second name as well: it stays
  /// until something is told of a later one.
  const Position& saved(std::int64_t step) {
    while (positions_.size() > 1 && positions_.front().step != step) positions_.pop_front();
    return positions_.front();
  }
  /// That of `step` has failed, and nothing more is told of it. One that was not added comes after all that were.
  void failed(std::int64_t step) {
    while (!positions_.empty() && positions_.front().step != step) positions_.pop_front();
    if (!positions_.empty()) positions_.pop_front();
  }

  [[nodiscard]] std::size_t count() const { return positions_.size(); }

 private:
  std::deque<Position> positions_;
};

}  // namespace ddprun::training
