#include "launcher/why/hang/hang_policy.h"

#include "launcher/why/hang/hang_watch.h"
#include "tests/support/catch.h"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun::launcher::why;

namespace {

constexpr HangLimits kLimits{.report_s = 10, .timeout_s = 60};
constexpr HangPolicy::Sight kAll{};

/// Rank 0 waits in its seventh collective, for rank 1.
std::vector<Pulse> waiting(std::uint64_t next = 7) {
  return {{.rank = 0, .pid = 1, .records = true, .next = next, .pending = 1},
          {.rank = 1, .pid = 2, .records = true, .next = next - 1}};
}

Verdict verdict(Health health, Doing doing = Doing::kSleeps) {
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

HangPolicy quiet_since_0() {
  HangPolicy policy(kLimits, 0);
  policy.note(waiting(), 0);
  return policy;
}

/// What is decided, and then said.
HangPolicy::Say say(HangPolicy& policy, const Verdict& verdict, const HangPolicy::Sight& sight, double now) {
  const HangPolicy::Say decided = policy.decide(verdict, sight, now);
  if (decided != HangPolicy::Say::kNothing) policy.told(verdict, now);
  return decided;
}

}  // namespace

TEST_CASE("a job without progress is looked at when the first limit is over, and not before") {
  HangPolicy policy = quiet_since_0();
  CHECK_FALSE(policy.note(waiting(), 9));
  CHECK(policy.note(waiting(), 10));
}

TEST_CASE("a collective that begins or ends on any rank is progress") {
  HangPolicy policy = quiet_since_0();
  CHECK_FALSE(policy.note(waiting(8), 9));
  CHECK_FALSE(policy.note(waiting(8), 12));
  CHECK(policy.note(waiting(8), 19));
}

TEST_CASE("where nothing is recorded, a rank that computes is progress") {
  HangPolicy policy(kLimits, 0);
  CHECK_FALSE(policy.note({{.pid = 1, .is_busy = true}, {.pid = 2}}, 30));
  CHECK_FALSE(policy.note({{.pid = 1}, {.pid = 2}}, 39));
  CHECK(policy.note({{.pid = 1}, {.pid = 2}}, 40));
}

TEST_CASE("what a rank with libddprun tells is progress, and nothing else of a rank that tells") {
  HangPolicy policy(kLimits, 0);
  const auto told = [](std::uint64_t beats) {
    return std::vector<Pulse>{{.pid = 1, .records = true, .beats = beats, .is_busy = true}, {.pid = 2}};
  };
  policy.note(told(1), 0);
  CHECK_FALSE(policy.note(told(2), 9));
  CHECK(policy.has_moved());
  CHECK_FALSE(policy.note(told(2), 18));
  CHECK_FALSE(policy.has_moved());
  CHECK(policy.note(told(2), 19));
}

TEST_CASE(
    "what comes from another rank is progress, and a connection that is told of no more, or again, is not") {
  HangPolicy policy(kLimits, 0);
  const auto received = [](std::map<std::string, std::uint64_t> bytes) {
    return std::vector<Pulse>{{.rank = 0, .pid = 1, .records = true},
                              {.rank = 1, .pid = 2, .records = true, .received = std::move(bytes)}};
  };
  policy.note(received({{"a", 100}}), 0);
  CHECK_FALSE(policy.note(received({{"a", 200}}), 9));
  CHECK(policy.has_moved());
  CHECK_FALSE(policy.note(received({}), 18));
  CHECK_FALSE(policy.has_moved());
  CHECK(policy.note(received({{"a", 300}, {"b", 1}}), 19));
}

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

TEST_CASE("what comes from another rank counts, and what comes from elsewhere, or from itself, does not") {
  std::vector<Pulse> pulses(2);
  add_messages(pulses, {{{"1", {.local = "a:50", .remote = "a:60", .bytes = 1}},
                         {"2", {.local = "a:51", .remote = "a:80", .bytes = 2}}},
                        {{"4", {.local = "a:60", .remote = "a:50", .bytes = 4}},
                         {"5", {.local = "a:61", .remote = "a:62", .bytes = 5}},
                         {"6", {.local = "a:62", .remote = "a:61", .bytes = 6}}}});
  CHECK(pulses[0].received == std::map<std::string, std::uint64_t>{{"a:60", 1}});
  CHECK(pulses[1].received == std::map<std::string, std::uint64_t>{{"a:50", 4}});
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

TEST_CASE("a report that was decided and not said, because the job got on meanwhile, comes later") {
  HangPolicy policy = quiet_since_0();
  Verdict held = verdict(Health::kStuck, Doing::kStopped);
  held.is_of_part = false;
  REQUIRE(policy.note(waiting(), 10));
  CHECK(policy.decide(held, kAll, 10) == HangPolicy::Say::kReport);
  std::vector<Pulse> pulses = waiting();
  pulses.push_back({.rank = 2, .pid = 3, .records = true, .next = 1});
  policy.note(pulses, 11);
  CHECK(policy.has_moved(held, 11));
  CHECK(policy.note(pulses, 21));
  CHECK(say(policy, held, kAll, 21) == HangPolicy::Say::kReport);
}

TEST_CASE("where a rank is one of several processes, a wait of all that were seen is not told") {
  HangPolicy policy = quiet_since_0();
  Verdict all = verdict(Health::kStuck);
  all.guilty.clear();
  REQUIRE(policy.note(waiting(), 10));
  CHECK(say(policy, all, {.sees_all = false, .has_siblings = true}, 10) == HangPolicy::Say::kNothing);
}

TEST_CASE("what other nodes are told of is progress that a rank has shown, and not that it computes") {
  HangPolicy policy(kLimits, 0);
  policy.note({{.pid = 1}, {.pid = 2}}, 1);
  policy.note({{.pid = 1, .is_busy = true}, {.pid = 2}}, 5);
  CHECK(policy.quiet_s(5) == 0);
  CHECK(policy.shown_at() == 1);
  policy.note({{.pid = 1, .beats = 1}, {.pid = 2}}, 6);
  CHECK(policy.shown_at() == 6);
  policy.note({{.pid = 1, .beats = 1, .received = {{"a", 1}}}, {.pid = 2}}, 7);
  policy.note({{.pid = 1, .beats = 1, .received = {{"a", 2}}}, {.pid = 2}}, 8);
  CHECK(policy.shown_at() == 8);
}

TEST_CASE("a script that goes on to its next program gets on") {
  HangPolicy policy(kLimits, 0);
  policy.note({{.pid = 1}, {.pid = 2}}, 0);
  CHECK_FALSE(policy.note({{.pid = 3}, {.pid = 2}}, 10));
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

TEST_CASE("a rank for which others have waited for a moment, after a long silence of all, is left in peace") {
  Verdict late = verdict(Health::kLate, Doing::kComputes);
  late.waited_s = 2;
  HangPolicy policy = quiet_since_0();
  CHECK(say(policy, late, kAll, 100) == HangPolicy::Say::kNothing);
  late.waited_s = 60;
  CHECK(say(policy, late, kAll, 158) == HangPolicy::Say::kEnd);
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

TEST_CASE("the second limit is kept to the moment, whatever was said at the first") {
  HangPolicy policy = quiet_since_0();
  REQUIRE(policy.note(waiting(), 50));
  CHECK(say(policy, verdict(Health::kStuck), kAll, 50) == HangPolicy::Say::kReport);
  CHECK_FALSE(policy.note(waiting(), 59));
  REQUIRE(policy.note(waiting(), 60));
  CHECK(say(policy, verdict(Health::kStuck), kAll, 60) == HangPolicy::Say::kEnd);
}

TEST_CASE("where nobody asked, only programs with libtorch are looked at") {
  HangPolicy policy({.report_s = 10, .is_asked = false}, 0);
  CHECK_FALSE(policy.note({{.pid = 1}}, 30));
  CHECK(policy.note({{.pid = 1, .has_torch = true}}, 40));
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

TEST_CASE("a time-out that nobody has asked for ends what is certainly stuck, and nothing else") {
  constexpr HangLimits kUnasked{
      .report_s = 10, .timeout_s = 60, .is_asked = false, .is_timeout_asked = false};
  const auto said = [&](const Verdict& verdict) {
    HangPolicy policy(kUnasked, 0);
    policy.note(waiting(), 0);
    return say(policy, verdict, kAll, 60) == HangPolicy::Say::kEnd;
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

TEST_CASE("the flag goes before the job file, whose default is nobody's wish") {
  using std::chrono::seconds;
  const auto limits = [](std::optional<seconds> flag, std::optional<JobHangTimeout> job) {
    ddprun::launcher::Options options;
    options.hang_timeout = flag;
    return hang_limits(options, job);
  };
  const HangLimits by_default = limits({}, JobHangTimeout{.seconds = 600});
  CHECK(by_default.timeout_s == 600);
  CHECK_FALSE(by_default.is_timeout_asked);
  CHECK_FALSE(by_default.is_asked);
  CHECK(limits({}, JobHangTimeout{.seconds = 600, .is_asked = true}).is_timeout_asked);
  CHECK(limits(seconds(5), JobHangTimeout{.seconds = 600}).timeout_s == 5);
  CHECK(limits(seconds(0), JobHangTimeout{.seconds = 600, .is_asked = true}).timeout_s == 0);
  CHECK(limits({}, {}).timeout_s == 0);
}
