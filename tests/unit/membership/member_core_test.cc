#include "rendezvous/membership/member_core.h"

#include "tests/support/catch.h"

#include <string>
#include <vector>

namespace ddprun::membership {
namespace {

using namespace std::chrono_literals;

std::vector<Phase> told(const MemberActions& actions) {
  std::vector<Phase> phases;
  for (const MemberAction& action : actions) {
    if (const auto* send = std::get_if<SendStatus>(&action)) phases.push_back(send->status.phase);
  }
  return phases;
}

MemberCore running_member(TimePoint now) {
  MemberCore member({.heartbeat = 1s, .missed_heartbeats = 5}, now);
  member.connected(now);
  member.order({.kind = OrderKind::kRun, .acknowledged = 1, .generation = Generation(1), .seat = Seat{}},
               now);
  return member;
}

const Order kStopOrder{.kind = OrderKind::kStop, .generation = Generation(1), .text = "rank 1 failed"};

}  // namespace

TEST_CASE("a node that is told to stop answers soon, and when its workers are gone") {
  const TimePoint now{};
  MemberCore member = running_member(now);

  const MemberActions obeyed = member.order(kStopOrder, now);
  REQUIRE(obeyed.size() == 1);
  CHECK(std::get<RoundStopped>(obeyed[0]).why == "rank 1 failed");

  CHECK(member.next_wake() == now + 100ms);
  CHECK(told(member.tick(now + 100ms)) == std::vector{Phase::kStopping});
  CHECK(told(member.workers_stopped(now + 1s)) == std::vector{Phase::kIdle});
}

TEST_CASE("a node that has succeeded has nothing to stop, and one that is to be stopped may have succeeded") {
  const bool is_stopped_first = GENERATE(false, true);
  const TimePoint now{};
  MemberCore member = running_member(now);
  if (is_stopped_first) member.order(kStopOrder, now);
  CHECK(told(member.workers_succeeded(now)) == std::vector{Phase::kSucceeded});
  CHECK(member.order(kStopOrder, now).empty());
  CHECK(member.workers_stopped(now).empty());
  CHECK(member.success() == Success{.generation = Generation(1)});
}

TEST_CASE("what a node has reached it tells whomever it finds, until it starts again") {
  const TimePoint start{};
  MemberCore member = running_member(start);
  member.workers_succeeded(start);
  const TimePoint later = start + 60s;  // its lease was over long ago
  SECTION("nobody answered") {
    for (TimePoint at = start + 1s; at < start + 5s; at += 1s) CHECK(told(member.tick(at)).size() == 1);
    const MemberActions at_last = member.tick(start + 5s);
    REQUIRE(at_last.size() == 1);
    CHECK(std::get<ComeBack>(at_last[0]).why == "the coordinator has not answered for 5.00 s");
  }
  SECTION("the connection is lost") {
    CHECK(std::holds_alternative<ComeBack>(member.disconnected("lost", later)[0]));
  }
  SECTION("it is given up") { CHECK(std::holds_alternative<ComeBack>(member.given_up("silent", later)[0])); }
  CHECK(member.success() == Success{.generation = Generation(1)});
  CHECK(told(member.connected(later)) == std::vector{Phase::kSucceeded});
  member.order({.kind = OrderKind::kRun, .acknowledged = 1, .generation = Generation(2), .seat = Seat{}},
               later);
  CHECK(member.phase() == Phase::kRunning);
  CHECK_FALSE(member.success());
}

TEST_CASE("that the job is to end a node tells whomever it finds") {
  const TimePoint now{};
  MemberCore member = running_member(now);
  const NodeFailure time_out{.exit_code = 75, .what = "the job is not done after 4 s"};
  const auto told_of_it = [](const MemberActions& actions) {
    const auto* send = actions.empty() ? nullptr : std::get_if<SendStatus>(&actions.back());
    return send != nullptr && send->status.failure && !send->status.failure->worker;
  };
  member.workers_succeeded(now);
  member.disconnected("lost", now);
  CHECK(member.workers_failed(time_out, now).empty());
  CHECK(told_of_it(member.connected(now)));
  const Order run{.kind = OrderKind::kRun, .acknowledged = 2, .generation = Generation(2), .seat = Seat{}};
  CHECK(told_of_it(member.order(run, now)));
  CHECK_FALSE(member.has_workers());
}

// Whoever stood still could not hear, and what was said meanwhile lies in its socket.
TEST_CASE("a node that stood still after its success reads first what it was told") {
  const TimePoint start{};
  MemberCore member = running_member(start);
  member.workers_succeeded(start);
  CHECK(told(member.tick(start + 60s)) == std::vector{Phase::kSucceeded});
  const MemberActions end =
      member.order({.kind = OrderKind::kEnd, .generation = Generation(1), .end = JobEnd{}}, start + 60s);
  REQUIRE(end.size() == 2);
  CHECK(std::get<SendStatus>(end[0]).status.has_heard_end);
  CHECK(std::get<JobEnded>(end[1]).end.exit_code == 0);
}

TEST_CASE("a lease that is over is nothing to workers that turn out to have succeeded before") {
  const TimePoint start{};
  MemberCore member = running_member(start);
  const MemberActions killed = member.tick(start + 6s);
  REQUIRE(killed.size() == 1);  // and no word to stop the others yet
  CHECK(std::holds_alternative<LeaseLost>(killed[0]));
  CHECK(told(member.workers_succeeded(start + 6s)) == std::vector{Phase::kSucceeded});
  CHECK_FALSE(member.why_given_up());
  CHECK(member.tick(start + 6s).empty());
}

TEST_CASE("a lease that runs out while the node stands still is told from one that nobody renews") {
  const TimePoint start{};
  MemberCore member = running_member(start);
  SECTION("it stood still") {
    CHECK(
        std::get<LeaseLost>(member.tick(start + 6s).front()).why ==
        "this node stood still and had no answer for 6.00 s, longer than its lease of 4.00 s; the others may "
        "go on without this node");
    CHECK(member.why_given_up());
    CHECK(member.why_cut_off() ==
          "it stood still and had no answer for 6.00 s, longer than its lease of 4.00 s");
  }
  SECTION("nobody answered") {
    for (const auto after : {1s, 2s, 3s}) member.tick(start + after);
    CHECK(std::get<LeaseLost>(member.tick(start + 4s).front()).why ==
          "the coordinator has not answered for 4.00 s; the others may go on without this node");
    CHECK_FALSE(member.why_given_up());
    CHECK(member.why_cut_off() == "it was not answered for 4.00 s");
  }
}

// The answer may have lain in the socket while the node stood still; its guards looked at the lease alone.
TEST_CASE("a lease that was over is not renewed by an answer read too late") {
  const TimePoint start{};
  MemberCore member = running_member(start);
  member.tick(start + 1s);
  CHECK(member.order({.kind = OrderKind::kRun, .acknowledged = 3, .generation = Generation(1)}, start + 4s)
            .empty());
  CHECK(std::get<LeaseLost>(member.tick(start + 4s).front()).why.find(" 0.00 s") == std::string::npos);
}

// Its clock may have stood still with it.
TEST_CASE("a node that is told that it was given up kills its workers, and remembers why until it is back") {
  const TimePoint now{};
  MemberCore member = running_member(now);
  const MemberActions obeyed = member.given_up("it was silent for 5.00 s", now + 1s);
  REQUIRE(obeyed.size() == 1);
  CHECK(std::get<LeaseLost>(obeyed[0]).why == "it was silent for 5.00 s");
  CHECK(std::get<ComeBack>(member.workers_stopped(now + 1s)[0]).why == "it was silent for 5.00 s");
  CHECK(member.why_given_up() == "it was silent for 5.00 s");
  member.connected(now + 2s);
  CHECK_FALSE(member.why_given_up());
}

TEST_CASE(
    "a node that is stopped for another tells of a rank that has left, and then of better causes alone") {
  const TimePoint now{};
  MemberCore member = running_member(now);
  member.order({.kind = OrderKind::kStop, .generation = Generation(1), .text = "rank 1 failed"}, now);
  const NodeFailure leaver{.worker = WorkerEnd{.rank = Rank(0)},
                           .what = "rank 0 left",
                           .weight = Weight::kSymptom,
                           .has_left = true};
  const MemberActions told = member.workers_failed(leaver, now);
  REQUIRE(told.size() == 1);
  CHECK(std::get<SendStatus>(told[0]).status.failure == leaver);
  const MemberActions better = member.workers_failed({.what = "rank 1 exited with code 7"}, now);
  REQUIRE(better.size() == 1);
  CHECK(std::get<SendStatus>(better[0]).status.failure->what == "rank 1 exited with code 7");
  CHECK(member.workers_failed(leaver, now).empty());
  // That it is the better one is the judgement of its own launcher, which has seen both.
  const MemberActions older = member.workers_failed({.what = "rank 0 exited with code 3"}, now);
  REQUIRE(older.size() == 1);
  CHECK(std::get<SendStatus>(older[0]).status.failure->what == "rank 0 exited with code 3");
}

// It sits in a round that was stopped before it heard of it.
TEST_CASE("a failure is told of its own generation alone") {
  const TimePoint now{};
  MemberCore member = running_member(now);
  member.workers_failed({.worker = WorkerEnd{.rank = Rank(0)}, .what = "rank 0 exited with code 7"}, now);
  member.workers_stopped(now);
  const MemberActions obeyed =
      member.order({.kind = OrderKind::kStop, .generation = Generation(2), .text = "rank 1 failed"}, now);
  REQUIRE(obeyed.size() == 1);
  CHECK(std::get<SendStatus>(obeyed[0]).status.generation == Generation(2));
  CHECK_FALSE(std::get<SendStatus>(obeyed[0]).status.failure);
}

}  // namespace ddprun::membership
