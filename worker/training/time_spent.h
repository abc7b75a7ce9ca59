#pragma once

#include "rendezvous/base/clock.h"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::training {

/// What a rank does with its time. On a GPU these are times of the host, which runs ahead of the device and waits
/// where it needs a result.
enum class Activity { kLoader, kForward, kBackward, kOptimizer, kEvaluation, kCheckpoint };

inline constexpr std::array<const char*, 6> kActivityNames{"loader",    "forward",    "backward",
                                                           "optimizer", "evaluation", "checkpoint"};

/// Adds up the time that a rank spends on each activity.
class TimeSpent {
 public:
  explicit TimeSpent(const Clock& clock) : clock_(clock) {}

  /// Runs from its construction to its end, for one activity. Two never run at once.
  class Span {
   public:
    Span(TimeSpent& spent, Activity activity)
        : spent_(spent), activity_(activity), start_(spent.clock_.now()) {}
    ~Span() {
      spent_.seconds_[static_cast<std::size_t>(activity_)] += to_seconds(spent_.clock_.now() - start_);
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    TimeSpent& spent_;
    Activity activity_;
    TimePoint start_;
  };

  [[nodiscard]] Span on(Activity activity) { return {*this, activity}; }

  /// By activity, in seconds.
  [[nodiscard]] const std::array<double, kActivityNames.size()>& seconds() const { return seconds_; }

 private:
  const Clock& clock_;
  std::array<double, kActivityNames.size()> seconds_{};
};

}  // namespace ddprun::training
