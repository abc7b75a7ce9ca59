#pragma once

#include "rendezvous/base/clock.h"

#include <cstdint>
#include <optional>

namespace ddprun::runtime {

/// How fast this process steps, for two questions of a process that was asked to stop. Pure.
class StepPace {
 public:
  void step_done(TimePoint now);
  /// A part of a long step is done.
  void progress(TimePoint now);
  /// No limit holds until the next progress.
  void measure_step(TimePoint now);

  /// From the second step on.
  [[nodiscard]] bool is_known() const { return usual_s_ > 0; }
  [[nodiscard]] bool has_begun() const { return last_progress_.has_value() || is_taking_time_; }
  /// How many steps ahead to stop, so that every rank hears of it before: two, and what fits into `spread`.
  /// Where the pace is known.
  [[nodiscard]] std::int64_t margin(Duration spread) const;
  /// No progress for `patience` and for five of the longest steps seen.
  [[nodiscard]] bool is_stuck(Duration patience, TimePoint now) const;

 private:
  std::optional<TimePoint> last_step_;
  std::optional<TimePoint> last_progress_;
  bool is_taking_time_ = false;
  Duration longest_{};  ///< between two signs of progress
  double usual_s_ = 0;  ///< of the last ten steps or so; a pause among them counts little
};

}  // namespace ddprun::runtime
