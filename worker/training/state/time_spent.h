#pragma once

#include "rendezvous/base/clock.h"
#include <ddprun/progress.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::training {

/// What a rank does with its time. On a GPU these are times of the host, which runs ahead of the device and waits
/// where it needs a result.
enum class Activity { kLoader, kForward, kBackward, kCommunication, kOptimizer, kEvaluation, kCheckpoint };

inline constexpr std::array<const char*, 7> kActivityNames{
    "loader", "forward", "backward", "exposed communication", "optimizer", "evaluation", "checkpoint"};
/// The same as `ddprun why` and `ddprun ps --watch` say it of a rank.
inline constexpr std::array<const char*, kActivityNames.size()> kActivityWords{
    "waits for a batch", "is in forward", "is in backward", "waits for gradients",
    "updates weights",   "evaluates",     "saves"};

/// Is told what begins and ends, as it happens. What ends is what has begun last.
class ActivityWatcher {
 public:
  virtual ~ActivityWatcher() = default;
  ActivityWatcher() = default;
  ActivityWatcher(const ActivityWatcher&) = delete;
  ActivityWatcher& operator=(const ActivityWatcher&) = delete;
  virtual void begins(const char* name) = 0;
  virtual void ends() = 0;
};

/// Adds up the time that a rank spends on each activity.
class TimeSpent {
 public:
  explicit TimeSpent(const Clock& clock) : clock_(clock) {}

  /// Runs from its construction to its end, for one activity. Two never run at once.
  class Span {
   public:
    Span(TimeSpent& spent, Activity activity)
        : spent_(spent), watcher_(spent.watcher_), activity_(activity), start_(spent.clock_.now()) {
      note_phase(kActivityWords[static_cast<std::size_t>(activity)]);
      if (watcher_ != nullptr) watcher_->begins(kActivityNames[static_cast<std::size_t>(activity)]);
    }
    ~Span() {
      if (watcher_ != nullptr) watcher_->ends();
      note_phase({});
      spent_.seconds_[static_cast<std::size_t>(activity_)] += to_seconds(spent_.clock_.now() - start_);
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    TimeSpent& spent_;
    ActivityWatcher* watcher_;
    Activity activity_;
    TimePoint start_;
  };

  [[nodiscard]] Span on(Activity activity) { return {*this, activity}; }

  /// `time` of the activity `from`, which is going on, was one of `to`.
  void move(Activity from, Activity to, Duration time) {
    seconds_[static_cast<std::size_t>(from)] -= to_seconds(time);
    seconds_[static_cast<std::size_t>(to)] += to_seconds(time);
  }

  [[nodiscard]] TimePoint now() const { return clock_.now(); }

  /// Who is told of the spans that begin from now on, or null; it outlives them.
  void watch(ActivityWatcher* watcher) { watcher_ = watcher; }
  [[nodiscard]] ActivityWatcher* watcher() const { return watcher_; }

  /// By activity, in seconds.
  [[nodiscard]] const std::array<double, kActivityNames.size()>& seconds() const { return seconds_; }

 private:
  const Clock& clock_;
  ActivityWatcher* watcher_ = nullptr;
  std::array<double, kActivityNames.size()> seconds_{};
};

}  // namespace ddprun::training
