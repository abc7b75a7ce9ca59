#pragma once

#include "launcher/why/hang/hang_policy.h"

#include <cstdint>
#include <vector>

// A job that hangs, made by hand: what the policy of hangs is asked about.

namespace ddprun::launcher::why {

inline constexpr HangLimits kLimits{.report_s = 10, .timeout_s = 60};
inline constexpr HangPolicy::Sight kAll{};

/// Rank 0 waits in its seventh collective, for rank 1.
inline std::vector<Pulse> waiting(std::uint64_t next = 7) {
  return {{.rank = 0, .pid = 1, .records = true, .next = next, .pending = 1},
          {.rank = 1, .pid = 2, .records = true, .next = next - 1}};
}

inline Verdict verdict(Health health, Doing doing = Doing::kSleeps) {
  Verdict verdict{.health = health};
  if (health != Health::kFine) {
    verdict.guilty = {1};
    verdict.waiting = {0};
    verdict.is_of_part = true;
  }
  verdict.ranks = {{.rank = 0}, {.rank = 1}};
  verdict.ranks[1].activity.doing = doing;
  return verdict;
}

inline HangPolicy quiet_since_0() {
  HangPolicy policy(kLimits, 0);
  policy.note(waiting(), 0);
  return policy;
}

/// What is decided, and then said.
inline HangPolicy::Say say(HangPolicy& policy, const Verdict& verdict, const HangPolicy::Sight& sight,
                           double now) {
  const HangPolicy::Say decided = policy.decide(verdict, sight, now);
  if (decided != HangPolicy::Say::kNothing) policy.told(verdict, now);
  return decided;
}

}  // namespace ddprun::launcher::why
