#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>

namespace ddprun {

using Duration = std::chrono::nanoseconds;

/// The kernel's CLOCK_BOOTTIME: steady, and it goes on while the machine is suspended, as the clocks of other
/// machines do. Every deadline is one of this clock.
struct BootClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;
  static time_point now() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return time_point(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
  }
};
using TimePoint = BootClock::time_point;

/// Where "now" comes from. Decisions take a TimePoint; only shells own a Clock. Tests use FakeClock.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual TimePoint now() const = 0;
};

/// BootClock behind that interface.
class KernelClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return BootClock::now(); }
};

/// A point in time by which something must have happened. Made once from a configured timeout, then passed
/// down: a retry loop that asks `remaining()` cannot restart it.
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
