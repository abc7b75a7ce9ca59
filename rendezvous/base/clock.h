#pragma once

#include <algorithm>
#include <chrono>

namespace ddprun {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// Where "now" comes from. Decisions take a TimePoint; only shells own a Clock. Tests use FakeClock.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual TimePoint now() const = 0;
};

/// The kernel's monotonic clock.
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

/// A point in time by which something must have happened. Made once from a configured timeout, then passed down:
/// a retry loop that asks `remaining()` cannot restart it.
class Deadline {
 public:
  static Deadline at(TimePoint when) { return Deadline(when); }
  static Deadline after(TimePoint now, Duration timeout) { return Deadline(now + timeout); }
  static Deadline never() { return Deadline(TimePoint::max()); }

  [[nodiscard]] bool is_expired(TimePoint now) const { return now >= when_; }
  [[nodiscard]] bool is_never() const { return when_ == TimePoint::max(); }
  [[nodiscard]] TimePoint when() const { return when_; }
  /// Zero when expired.
  [[nodiscard]] Duration remaining(TimePoint now) const { return std::max(Duration::zero(), when_ - now); }

 private:
  explicit Deadline(TimePoint when) : when_(when) {}
  TimePoint when_;
};

/// Seconds with one or two digits, for messages: "30.0 s", "0.25 s".
inline double to_seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace ddprun
