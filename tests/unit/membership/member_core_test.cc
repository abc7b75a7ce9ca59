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

// A thousand answers would reach the coordinator while it still tells the others.
TEST_CASE("a node that is told to stop answers when its workers are gone, or with its next heartbeat") {
  const bool has_succeeded = GENERATE(false, true);
  const TimePoint now{};
  MemberCore member = running_member(now);
  if (has_succeeded) member.workers_succeeded(now);

  const MemberActions obeyed = member.order(kStopOrder, now);
  REQUIRE(obeyed.size() == 1);
  CHECK(std::get<StopWorkers>(obeyed[0]).reason == "rank 1 failed");

  CHECK(told(member.tick(now + 1s)) == std::vector{Phase::kStopping});
  CHECK(told(member.workers_stopped(now + 1s)) == std::vector{Phase::kIdle});
}

// Else the next round could begin while the word to stop the last one is still on its way to the workers.
TEST_CASE("workers that succeed when they were to be stopped are idle only when that has been done") {
  const TimePoint now{};
  MemberCore member = running_member(now);
  member.order(kStopOrder, now);
  CHECK(told(member.workers_succeeded(now)).empty());
  CHECK(told(member.workers_stopped(now)) == std::vector{Phase::kIdle});
}

TEST_CASE("a lease that runs out while the node stands still is told from one that nobody renews") {
  const TimePoint start{};
  MemberCore member = running_member(start);
  SECTION("it stood still") {
    CHECK(
        std::get<KillWorkers>(member.tick(start + 6s).front()).reason ==
        "this node stood still and had no answer for 6.00 s, longer than its lease of 4.00 s; the others may "
        "go on without this node");
    CHECK(member.why_given_up());
    CHECK(member.why_cut_off() ==
          "it stood still and had no answer for 6.00 s, longer than its lease of 4.00 s");
  }
  SECTION("nobody answered") {
    for (const auto after : {1s, 2s, 3s}) member.tick(start + after);
    CHECK(std::get<KillWorkers>(member.tick(start + 4s).front()).reason ==
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
  CHECK(std::get<KillWorkers>(member.tick(start + 4s).front()).reason.find(" 0.00 s") == std::string::npos);
}

// Its clock may have stood still with it.
TEST_CASE("a node that is told that it was given up kills its workers, and remembers why until it is back") {
  const TimePoint now{};
  MemberCore member = running_member(now);
  const MemberActions obeyed = member.given_up("it was silent for 5.00 s", now + 1s);
  REQUIRE(obeyed.size() == 1);
  CHECK(std::get<KillWorkers>(obeyed[0]).reason == "it was silent for 5.00 s");
  CHECK(std::get<ComeBack>(member.workers_stopped(now + 1s)[0]).reason == "it was silent for 5.00 s");
  CHECK(member.why_given_up() == "it was silent for 5.00 s");
  member.connected(now + 2s);
  CHECK_FALSE(member.why_given_up());
}

// It sits in a round that was stopped before it heard of it.
TEST_CASE("a failure is told of its own generation alone") {
  const TimePoint now{};
  MemberCore member = running_member(now);
  member.workers_failed({.what = "rank 0 exited with code 7"}, now);
  member.workers_stopped(now);
  const MemberActions obeyed =
      member.order({.kind = OrderKind::kStop, .generation = Generation(2), .text = "rank 1 failed"}, now);
  REQUIRE(obeyed.size() == 1);
  CHECK(std::get<SendStatus>(obeyed[0]).status.generation == Generation(2));
  CHECK_FALSE(std::get<SendStatus>(obeyed[0]).status.failure);
}

}  // namespace ddprun::membership
