#include "launcher/why/hang/hang_policy.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher_why/made_hangs.h"

#include <cstdint>
#include <utility>
#include <vector>

using namespace ddprun::launcher::why;

TEST_CASE(
    "what others that get on may explain is told when nobody does, and so is a part with a rank elsewhere") {
  std::uint64_t next = 1;
  const auto says = [&](const Verdict& verdict) {
    HangPolicy policy({.report_s = 10, .is_alone = false}, 0);
    for (double now = 0; now < 30; ++now) {
      std::vector<Pulse> pulses = waiting();
      pulses.push_back({.rank = 2, .pid = 3, .records = true, .next = ++next});
      policy.note(std::move(pulses), now);
    }
    return say(policy, verdict, kAll, 30);
  };
  Verdict part = verdict(Health::kStuck);
  part.waited_s = 30;
  CHECK(says(part) == HangPolicy::Say::kReport);
  part.is_of_part = false;
  CHECK(says(part) == HangPolicy::Say::kNothing);
  part.is_of_part = true;
  part.guilty = {7};
  CHECK(says(part) == HangPolicy::Say::kNothing);
}

TEST_CASE("nobody is ended while any rank of the job gets on, on whichever node") {
  HangPolicy policy({.timeout_s = 60, .is_alone = false}, 0);
  policy.note(waiting(), 0);
  REQUIRE(policy.note(waiting(), 60));
  Verdict part = verdict(Health::kStuck);
  part.waited_s = 60;
  part.moved_s = 59;
  CHECK(say(policy, part, kAll, 60) != HangPolicy::Say::kEnd);
  part.moved_s = 60;
  CHECK(say(policy, part, kAll, 60) == HangPolicy::Say::kEnd);
}

TEST_CASE("where not all ranks were seen, a time-out ends only who waits for nobody") {
  const auto ends = [](Verdict verdict) {
    HangPolicy policy = quiet_since_0();
    REQUIRE(policy.note(waiting(), 60));
    return say(policy, verdict, {.sees_all = false}, 60) == HangPolicy::Say::kEnd;
  };
  Verdict all = verdict(Health::kStuck);
  all.guilty.clear();
  all.waiting = {0, 1};
  CHECK_FALSE(ends(all));
  CHECK_FALSE(ends(verdict(Health::kStuck, Doing::kWaits)));
  // It may be one of those that were not seen.
  Verdict guess = verdict(Health::kStuck, Doing::kSleeps);
  CHECK(ends(guess));
  guess.confidence = Confidence::kGuess;
  CHECK_FALSE(ends(guess));
  CHECK(ends(verdict(Health::kStuck, Doing::kBlocked)));
  CHECK(ends(verdict(Health::kLate, Doing::kComputes)));
  // Who polls for the end of what it is in spins, and who waits for a GPU does.
  for (const Doing doing : {Doing::kComputes, Doing::kWaitsForGpu}) {
    Verdict spinning = verdict(Health::kLate, doing);
    spinning.ranks[1].activity.is_in_open = true;
    CHECK_FALSE(ends(spinning));
  }
  // One is known not to wait, and another one would be ended with it.
  Verdict two = verdict(Health::kStuck, Doing::kWaits);
  two.guilty = {1, 2};
  two.ranks.push_back({.rank = 2});
  two.ranks[2].activity.doing = Doing::kSleeps;
  CHECK_FALSE(ends(two));
}

TEST_CASE(
    "a node asks the others where a rank may be the late one, and any node does when the time is over") {
  const auto asks = [](Activity activity, bool is_time_over = false, int rank = 1) {
    Verdict here;
    here.ranks = {{.rank = rank}};
    here.ranks[0].activity = std::move(activity);
    return asks_others(here, is_time_over);
  };
  CHECK(asks({.doing = Doing::kSleeps}));
  CHECK(asks({.doing = Doing::kWaitsForStore}));
  CHECK_FALSE(asks({.doing = Doing::kComputes}));
  CHECK(asks({.doing = Doing::kComputes}, true));
  // Of all that wait, rank 0's node asks; but who is in another collective than the others waits as well.
  const Activity waits{.doing = Doing::kWaits, .is_in_open = true};
  const Activity spins{.doing = Doing::kWaitsForGpu, .is_in_open = true};
  for (const Activity& activity : {waits, spins}) {
    CHECK(asks(activity, false, 0));
    CHECK_FALSE(asks(activity));
    CHECK(asks(activity, true));
  }
  // All wait, and what is wrong is among them.
  Verdict in_two_places;
  in_two_places.ranks = {{.rank = 2, .activity = waits}, {.rank = 3, .activity = waits}};
  in_two_places.health = Health::kStuck;
  CHECK_FALSE(asks_others(in_two_places, false));
  in_two_places.guilty = {2, 3};
  CHECK(asks_others(in_two_places, false));
}

TEST_CASE("a node that has asked no other one says nothing of a job of several") {
  for (const bool has_asked : {true, false}) {
    HangPolicy policy({.report_s = 10, .timeout_s = 60, .is_alone = false}, 0);
    policy.note(waiting(), 0);
    Verdict all_wait = verdict(Health::kStuck);
    all_wait.waited_s = 600;
    CHECK(say(policy, all_wait, {.sees_all = false, .has_asked = has_asked}, 30) ==
          (has_asked ? HangPolicy::Say::kReport : HangPolicy::Say::kNothing));
  }
}

TEST_CASE("a node that has asked no other one ends nobody, though the time is over when it has looked") {
  for (const bool has_asked : {true, false}) {
    HangPolicy policy({.report_s = 10, .timeout_s = 60, .is_alone = false}, 0);
    policy.note(waiting(), 0);
    Verdict late = verdict(Health::kLate, Doing::kComputes);
    late.waited_s = 600;
    CHECK(say(policy, late, {.has_asked = has_asked}, 61) ==
          (has_asked ? HangPolicy::Say::kEnd : HangPolicy::Say::kNothing));
  }
}

TEST_CASE("where all the guilty have ended, a node with ranks that wait for them ends these") {
  for (const bool has_waiting : {true, false}) {
    HangPolicy policy({.report_s = 10, .timeout_s = 60, .is_alone = false}, 0);
    policy.note(waiting(), 0);
    Verdict ended = verdict(Health::kStuck, Doing::kEnded);
    ended.waited_s = 600;
    const HangPolicy::Sight sight{.has_guilty = false, .has_rank_0 = false, .has_waiting = has_waiting};
    CHECK(say(policy, ended, sight, 70) == (has_waiting ? HangPolicy::Say::kEnd : HangPolicy::Say::kReport));
    HangPolicy unsure({.report_s = 10, .timeout_s = 60, .is_alone = false}, 0);
    unsure.note(waiting(), 0);
    CHECK(say(unsure, ended, {.sees_all = false, .has_guilty = has_waiting}, 200) != HangPolicy::Say::kEnd);
  }
}

TEST_CASE("of several nodes, whose ranks may have got on, those who wait have to have waited as long") {
  const auto said = [](double waited_s, double now) {
    HangPolicy policy({.report_s = 10, .timeout_s = 60, .is_alone = false}, 0);
    policy.note(waiting(), 0);
    Verdict late = verdict(Health::kStuck, Doing::kBlocked);
    late.waited_s = waited_s;
    return say(policy, late, kAll, now);
  };
  CHECK(said(5, 600) == HangPolicy::Say::kNothing);
  CHECK(said(59, 600) == HangPolicy::Say::kReport);
  CHECK(said(60, 600) == HangPolicy::Say::kEnd);
  CHECK(said(600, 59) == HangPolicy::Say::kReport);
}

TEST_CASE("of several nodes, where it is not known how long they waited, they wait from the first look on") {
  HangPolicy policy({.report_s = 10, .timeout_s = 60, .is_alone = false}, 0);
  policy.note(waiting(), 0);
  const Verdict late = verdict(Health::kStuck, Doing::kBlocked);
  CHECK(say(policy, late, kAll, 60) == HangPolicy::Say::kNothing);
  CHECK(say(policy, late, kAll, 75) == HangPolicy::Say::kReport);
  CHECK(say(policy, verdict(Health::kFine), kAll, 90) == HangPolicy::Say::kNothing);
  CHECK(say(policy, late, kAll, 105) == HangPolicy::Say::kNothing);
  CHECK(say(policy, late, kAll, 164) == HangPolicy::Say::kNothing);
  CHECK(say(policy, late, kAll, 165) == HangPolicy::Say::kEnd);
}

TEST_CASE("an accusation of before the job got on does not count for the next time it is quiet") {
  const HangLimits limits{.timeout_s = 60, .is_alone = false};
  Verdict late = verdict(Health::kLate, Doing::kComputes);
  late.waited_s = -1;
  HangPolicy policy(limits, 0);
  policy.note(waiting(), 0);
  CHECK(say(policy, late, kAll, 60) == HangPolicy::Say::kNothing);
  policy.note(waiting(8), 61);
  CHECK(policy.note(waiting(8), 121));
  CHECK(say(policy, late, kAll, 121) == HangPolicy::Say::kNothing);
}

TEST_CASE(
    "who is guilty elsewhere is told, and ended by rank 0's node where nobody does it in twice the time") {
  const auto policy_of = [] {
    HangPolicy policy({.timeout_s = 60, .is_alone = false}, 0);
    policy.note(waiting(), 0);
    return policy;
  };
  Verdict late = verdict(Health::kLate, Doing::kComputes);
  late.waited_s = 1000;
  HangPolicy first = policy_of();
  CHECK(say(first, late, {.has_guilty = false}, 60) == HangPolicy::Say::kReport);
  CHECK(say(first, late, {.has_guilty = false}, 119) == HangPolicy::Say::kNothing);
  CHECK(say(first, late, {.has_guilty = false}, 120) == HangPolicy::Say::kEnd);
  HangPolicy other = policy_of();
  CHECK(say(other, late, {.has_guilty = false, .has_rank_0 = false}, 500) == HangPolicy::Say::kReport);
  CHECK(say(other, late, {.has_guilty = false, .has_rank_0 = false}, 600) == HangPolicy::Say::kNothing);
}

TEST_CASE("where nobody asked and a rank on another host may compute, a wait of all here is not told") {
  Verdict all_wait = verdict(Health::kStuck);
  all_wait.guilty.clear();
  const auto said = [&](bool is_asked, bool sees_all) {
    HangPolicy policy({.report_s = 10, .is_asked = is_asked}, 0);
    policy.note(waiting(), 0);
    return say(policy, all_wait, {.sees_all = sees_all}, 20) == HangPolicy::Say::kReport;
  };
  CHECK_FALSE(said(false, false));
  CHECK(said(true, false));
  CHECK(said(false, true));
  // Late at one collective, for it waits in another, whose rank nobody sees from here.
  all_wait = verdict(Health::kStuck, Doing::kWaits);
  CHECK_FALSE(said(false, false));
  CHECK(said(false, true));
  all_wait = verdict(Health::kStuck, Doing::kSleeps);
  CHECK(said(false, false));
}
