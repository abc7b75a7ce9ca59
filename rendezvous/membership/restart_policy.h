#pragma once

#include "rendezvous/base/clock.h"
#include "rendezvous/membership/types.h"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::membership {

struct RestartPolicyOptions {
  int max_restarts = 0;
  /// Restarts older than this no longer count; none: they count for ever.
  std::optional<Duration> window;
  /// A generation that lived shorter than this may be a crash loop.
  Duration crash_loop_life = std::chrono::seconds(3);
  /// Delay after the second short life in a row; doubles with each further one.
  Duration first_backoff = std::chrono::milliseconds(500);
  Duration longest_backoff = std::chrono::seconds(30);
};

/// What to do after a failure, and why, in a sentence that ends up in the log and the report.
struct RestartDecision {
  bool restart = false;
  Duration delay{};
  std::string why;
  int number = 0;   ///< of those that still count, this one is the …th
  int allowed = 0;  ///< in all
};

/// For people: what failed, and of what, where that is known. Pure.
std::string explain(const std::string& what, const std::string& diagnosis);

/// The restart that was granted, of the generation that has been restarted so many times; `why` is explain()'s. Pure.
Restart restart_of(const RestartDecision& granted, int restart_count, std::string why);

/// How a job ends of which a generation ended with `what` and whose restart was refused: for people. Pure.
std::string refusal_of(const RestartDecision& refused, const std::string& what);

/// Decides whether a failed job gets another generation, on one node or several. Pure: time comes in, nothing
/// goes out.
///
/// Budget    at most max_restarts restarts within the window.
/// Back-off  the first restart is immediate; while generations keep dying young, the delay doubles.
class RestartPolicy {
 public:
  explicit RestartPolicy(RestartPolicyOptions options) : options_(options) {}

  /// Decides after a generation that lived for `life`, and books the restart if it grants one.
  RestartDecision decide(Duration life, TimePoint now);
  /// So many were granted by somebody else before.
  void continue_from(int restart_count, TimePoint now);

  /// Restarts granted so far: TORCHELASTIC_RESTART_COUNT of the next generation.
  [[nodiscard]] int restart_count() const { return restart_count_; }

 private:
  [[nodiscard]] Duration backoff() const;

  RestartPolicyOptions options_;
  int restart_count_ = 0;
  int short_lives_ = 0;              ///< in a row
  std::vector<TimePoint> restarts_;  ///< those that still count
};

}  // namespace ddprun::membership
