#pragma once

#include "rendezvous/base/clock.h"
#include "rendezvous/membership/types.h"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::membership {

/// What to do after a failure, and why, in a sentence that ends up in the log and the report.
struct RestartDecision {
  std::optional<Restart> restart;  ///< which of how many, and when; the rest is the caller's. None: refused
  std::string why;                 ///< empty: refused, because none were asked for
};

/// How a job ends of which a generation ended with `what` and whose restart was refused: for people. Pure.
std::string refusal_of(const RestartDecision& refused, const std::string& what);

/// Decides whether a failed job gets another generation, on one node or several. Pure: time comes in, nothing
/// goes out.
///
/// Budget    at most max_restarts restarts within max_restarts_window.
/// Back-off  the first restart is immediate; while generations keep dying young, in less than three seconds, the delay
///           doubles from half a second up to half a minute.
class RestartPolicy {
 public:
  explicit RestartPolicy(const JobSpec& spec)
      : max_restarts_(spec.max_restarts), window_(spec.max_restarts_window) {}

  /// Decides after a generation that lived for `life`, and books the restart if it grants one.
  RestartDecision decide(Duration life, TimePoint now);
  /// So many of the budget were granted by another coordinator before.
  void continue_from(int restarts_used, TimePoint now);

  /// Restarts granted from the budget so far, those that the window has forgotten included. Those that cost nothing
  /// are not among them: it is no TORCHELASTIC_RESTART_COUNT.
  [[nodiscard]] int restarts_used() const { return restarts_used_; }

 private:
  int max_restarts_;
  std::optional<Duration> window_;
  int restarts_used_ = 0;
  int short_lives_ = 0;              ///< in a row
  std::vector<TimePoint> restarts_;  ///< those that still count
};

}  // namespace ddprun::membership
