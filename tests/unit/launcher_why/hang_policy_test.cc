#include "launcher/why/hang/hang_policy.h"

#include "tests/support/catch.h"
#include "tests/unit/launcher_why/made_hangs.h"

#include <cstdint>
#include <vector>

using namespace ddprun::launcher::why;

TEST_CASE("of a job of which a part gets on, the other part is reported once, and not ended") {
  // Ranks 2 and 3 get on.
  const auto half = [](std::uint64_t next) {
    std::vector<Pulse> pulses = waiting();
    pulses.push_back({.rank = 2, .pid = 3, .records = true, .next = next});
    pulses.push_back({.rank = 3, .pid = 4, .records = true, .next = next});
    return pulses;
  };
  HangPolicy policy(kLimits, 0);
  std::uint64_t next = 1;
  policy.note(half(next), 0);
  int reports = 0;
  for (double now = 0.5; now < 500; now += 0.5) {
    if (!policy.note(half(++next), now)) continue;
    const HangPolicy::Say said = say(policy, verdict(Health::kStuck), kAll, now);
    CHECK(said != HangPolicy::Say::kEnd);
    reports += said == HangPolicy::Say::kReport;
    CHECK((now >= 10 || said == HangPolicy::Say::kNothing));
  }
  CHECK(reports == 1);
  CHECK(policy.has_moved());
  CHECK_FALSE(policy.has_moved(verdict(Health::kStuck), 500));
}

TEST_CASE("a job of which all ranks are stopped is told, and ended only by a time-out that was asked for") {
  for (const bool is_asked : {true, false}) {
    Verdict stopped = verdict(Health::kStuck, Doing::kStopped);
    stopped.guilty = {0, 1};
    stopped.waiting.clear();
    stopped.ranks[0].activity.doing = Doing::kStopped;
    HangPolicy policy({.report_s = 10, .timeout_s = 60, .is_timeout_asked = is_asked}, 0);
    policy.note(waiting(), 0);
    bool is_reported = false;
    bool is_ended = false;
    for (double now = 0.5; now < 500; now += 0.5) {
      if (!policy.note(waiting(), now)) continue;
      const HangPolicy::Say said = say(policy, stopped, kAll, now);
      is_reported = is_reported || said == HangPolicy::Say::kReport;
      is_ended = is_ended || said == HangPolicy::Say::kEnd;
    }
    CHECK(is_reported);
    CHECK(is_ended == is_asked);
  }
}

TEST_CASE("who waits long for ranks that get on is not reported, and looked at less and less often") {
  // Rank 0 waits in one group for rank 1, which gets on in another.
  const auto busy = [](std::uint64_t next) {
    std::vector<Pulse> pulses = waiting();
    pulses[1].next = next;
    return pulses;
  };
  HangPolicy policy({.report_s = 10}, 0);
  std::uint64_t next = 1;
  policy.note(busy(next), 0);
  int looks = 0;
  for (double now = 0.5; now < 1000; now += 0.5) {
    if (!policy.note(busy(++next), now)) continue;
    ++looks;
    CHECK(say(policy, verdict(Health::kStuck), kAll, now) == HangPolicy::Say::kNothing);
  }
  CHECK(looks > 0);
  CHECK(looks < 16);
}

TEST_CASE(
    "a hang of all is looked at in time, however long a part was quiet before, and told if it accuses "
    "others") {
  // Rank 0 waits for rank 1 from the beginning; ranks 2 and 3 get on until second 3600.
  const auto of_four = [](std::uint64_t next) {
    std::vector<Pulse> pulses = waiting();
    pulses.push_back({.rank = 2, .pid = 3, .records = true, .next = next, .pending = 1});
    pulses.push_back({.rank = 3, .pid = 4, .records = true, .next = next});
    return pulses;
  };
  for (const Health health : {Health::kStuck, Health::kLate}) {
    HangPolicy policy({.report_s = 10}, 0);
    policy.note(of_four(1), 0);
    double told_at = 0;
    for (double now = 0.5; now < 3700; now += 0.5) {
      const bool is_over = now >= 3600;
      if (!policy.note(of_four(is_over ? 7200 : static_cast<std::uint64_t>(2 * now)), now)) continue;
      Verdict part = verdict(health);
      if (is_over) {
        part.health = Health::kStuck;
        part.guilty = {1, 3};
        part.waiting = {0, 2};
      }
      if (say(policy, part, kAll, now) == HangPolicy::Say::kReport) told_at = now;
    }
    CHECK(told_at >= 3609);
    CHECK(told_at <= 3610.5);
  }
}

TEST_CASE("that somebody is stopped or frozen has to be seen in two looks, one soon after the other") {
  const HangLimits limits{.report_s = 10, .timeout_s = 60};
  for (const Doing doing : {Doing::kStopped, Doing::kFrozen}) {
    HangPolicy policy(limits, 0);
    policy.note(waiting(), 0);
    const Verdict held = verdict(Health::kStuck, doing);
    REQUIRE(policy.note(waiting(), 60));
    CHECK(say(policy, held, kAll, 60) == HangPolicy::Say::kNothing);
    // It was seen to go on: that a later look finds it stopped is the first time again.
    REQUIRE(policy.note(waiting(), 60.2));
    CHECK(say(policy, verdict(Health::kFine), kAll, 60.2) == HangPolicy::Say::kNothing);
    CHECK(say(policy, held, kAll, 90) == HangPolicy::Say::kNothing);
    REQUIRE(policy.note(waiting(), 90.2));
    CHECK(say(policy, held, kAll, 90.2) == HangPolicy::Say::kEnd);
  }
}

TEST_CASE("that somebody was stopped counts for the next look alone, not for one long after") {
  HangPolicy policy({.report_s = 10, .timeout_s = 60}, 0);
  policy.note(waiting(), 0);
  const Verdict held = verdict(Health::kStuck, Doing::kStopped);
  REQUIRE(policy.note(waiting(), 60));
  CHECK(say(policy, held, kAll, 60) == HangPolicy::Say::kNothing);
  std::vector<Pulse> moved = waiting();
  for (Pulse& pulse : moved) ++pulse.next;
  CHECK_FALSE(policy.note(moved, 61));
  REQUIRE(policy.note(moved, 200));
  CHECK(say(policy, held, kAll, 200) == HangPolicy::Say::kNothing);
}

TEST_CASE("a report that was decided and not said, because the job got on meanwhile, comes later") {
  HangPolicy policy = quiet_since_0();
  Verdict held = verdict(Health::kStuck, Doing::kStopped);
  held.is_of_part = false;
  REQUIRE(policy.note(waiting(), 10));
  CHECK(policy.decide(held, kAll, 10) == HangPolicy::Say::kNothing);  // seen once
  CHECK(policy.decide(held, kAll, 10) == HangPolicy::Say::kReport);
  std::vector<Pulse> pulses = waiting();
  pulses.push_back({.rank = 2, .pid = 3, .records = true, .next = 1});
  policy.note(pulses, 11);
  CHECK(policy.has_moved(held, 11));
  CHECK(policy.note(pulses, 21));
  CHECK(say(policy, held, kAll, 21) == HangPolicy::Say::kNothing);
  CHECK(policy.note(pulses, 21.2));
  CHECK(say(policy, held, kAll, 21.2) == HangPolicy::Say::kReport);
}

TEST_CASE("where a rank is one of several processes, a wait of all that were seen is not told") {
  HangPolicy policy = quiet_since_0();
  Verdict all = verdict(Health::kStuck);
  all.guilty.clear();
  REQUIRE(policy.note(waiting(), 10));
  CHECK(say(policy, all, {.sees_all = false, .has_siblings = true}, 10) == HangPolicy::Say::kNothing);
}

TEST_CASE("what begins to hang while a long step is watched is told within a quarter of the limit") {
  HangPolicy policy = quiet_since_0();
  for (double now = 10; now < 40; now += 0.5) {
    if (policy.note(waiting(), now))
      CHECK(say(policy, verdict(Health::kLate, Doing::kComputes), kAll, now) == HangPolicy::Say::kNothing);
  }
  double told_at = 0;
  for (double now = 40; told_at == 0 && now < 60; now += 0.5) {
    if (policy.note(waiting(), now) &&
        say(policy, verdict(Health::kStuck), kAll, now) == HangPolicy::Say::kReport)
      told_at = now;
  }
  CHECK(told_at > 0);
  CHECK(told_at <= 42.5);
}

TEST_CASE("a hang is reported once, and again after there was progress") {
  HangPolicy policy = quiet_since_0();
  REQUIRE(policy.note(waiting(), 10));
  CHECK(say(policy, verdict(Health::kStuck), kAll, 10) == HangPolicy::Say::kReport);
  CHECK_FALSE(policy.note(waiting(), 30));
  policy.note(waiting(8), 31);
  REQUIRE(policy.note(waiting(8), 41));
  CHECK(say(policy, verdict(Health::kStuck), kAll, 41) == HangPolicy::Say::kReport);
}

TEST_CASE("a rank that still does something is not reported, but ended when the time is over") {
  HangPolicy policy = quiet_since_0();
  REQUIRE(policy.note(waiting(), 10));
  CHECK(say(policy, verdict(Health::kLate), kAll, 10) == HangPolicy::Say::kNothing);
  REQUIRE(policy.note(waiting(), 60));
  CHECK(say(policy, verdict(Health::kLate), kAll, 60) == HangPolicy::Say::kEnd);
}

TEST_CASE("a job that is fine, or in a debugger's hands, is left in peace by both limits") {
  HangPolicy policy = quiet_since_0();
  REQUIRE(policy.note(waiting(), 60));
  CHECK(say(policy, verdict(Health::kFine), kAll, 60) == HangPolicy::Say::kNothing);
  REQUIRE(policy.note(waiting(), 120));
  CHECK(say(policy, verdict(Health::kStuck, Doing::kTraced), kAll, 120) == HangPolicy::Say::kNothing);
}

TEST_CASE("a rank that is held while nobody waits for it is left in peace by both limits") {
  HangPolicy policy = quiet_since_0();
  Verdict held = verdict(Health::kStuck);
  held.waiting.clear();
  REQUIRE(policy.note(waiting(), 60));
  CHECK(say(policy, held, kAll, 60) == HangPolicy::Say::kNothing);
}

TEST_CASE(
    "ranks that are split evenly between two collectives are reported and ended, though all are accused") {
  HangPolicy policy = quiet_since_0();
  Verdict split = verdict(Health::kStuck, Doing::kWaits);
  split.guilty = {0, 1};
  split.waiting.clear();
  split.confidence = Confidence::kGuess;
  split.ranks[0].activity.doing = Doing::kWaits;
  REQUIRE(policy.note(waiting(), 10));
  CHECK(say(policy, split, kAll, 10) == HangPolicy::Say::kReport);
  REQUIRE(policy.note(waiting(), 60));
  CHECK(say(policy, split, kAll, 60) == HangPolicy::Say::kEnd);
}

TEST_CASE("a job in which all wait and nobody is guilty is ended") {
  HangPolicy policy = quiet_since_0();
  Verdict all = verdict(Health::kStuck);
  all.guilty.clear();
  all.waiting = {0, 1};
  REQUIRE(policy.note(waiting(), 60));
  CHECK(say(policy, all, kAll, 60) == HangPolicy::Say::kEnd);
}

TEST_CASE("a rank for which others have waited for a moment, after a long silence of all, is left in peace") {
  Verdict late = verdict(Health::kLate, Doing::kComputes);
  late.waited_s = 2;
  HangPolicy policy = quiet_since_0();
  CHECK(say(policy, late, kAll, 100) == HangPolicy::Say::kNothing);
  late.waited_s = 60;
  CHECK(say(policy, late, kAll, 158) == HangPolicy::Say::kEnd);
}

TEST_CASE("the second limit is kept to the moment, whatever was said at the first") {
  HangPolicy policy = quiet_since_0();
  REQUIRE(policy.note(waiting(), 50));
  CHECK(say(policy, verdict(Health::kStuck), kAll, 50) == HangPolicy::Say::kReport);
  CHECK_FALSE(policy.note(waiting(), 59));
  REQUIRE(policy.note(waiting(), 60));
  CHECK(say(policy, verdict(Health::kStuck), kAll, 60) == HangPolicy::Say::kEnd);
}

TEST_CASE("a time-out that nobody has asked for ends what is certainly stuck, and nothing else") {
  constexpr HangLimits kUnasked{
      .report_s = 10, .timeout_s = 60, .is_asked = false, .is_timeout_asked = false};
  const auto said = [&](const Verdict& verdict) {
    HangPolicy policy(kUnasked, 0);
    policy.note(waiting(), 0);
    say(policy, verdict, kAll, 60);
    return say(policy, verdict, kAll, 61) == HangPolicy::Say::kEnd;
  };
  CHECK(said(verdict(Health::kStuck, Doing::kStopped)));
  CHECK(said(verdict(Health::kStuck, Doing::kEnded)));
  CHECK_FALSE(said(verdict(Health::kLate, Doing::kComputes)));
  for (const Doing doing : {Doing::kInKernel, Doing::kBlocked, Doing::kSleeps, Doing::kUnknown,
                            Doing::kTraced, Doing::kFrozen, Doing::kStarved, Doing::kSwaps})
    CHECK_FALSE(said(verdict(Health::kStuck, doing)));
  Verdict guess = verdict(Health::kStuck, Doing::kStopped);
  guess.confidence = Confidence::kGuess;
  CHECK_FALSE(said(guess));
  Verdict nobody = verdict(Health::kStuck, Doing::kStopped);
  nobody.guilty.clear();
  CHECK_FALSE(said(nobody));
}
