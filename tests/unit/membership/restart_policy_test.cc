#include "rendezvous/membership/restart_policy.h"

#include "tests/support/catch.h"
#include "tests/support/fake_clock.h"

using namespace ddprun;
using namespace ddprun::membership;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

struct Fixture {
  ddprun::testing::FakeClock clock;

  RestartDecision fail(RestartPolicy& policy, Duration life) {
    clock.advance(life);
    return policy.decide(life, clock.now());
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "without a budget there is no restart") {
  RestartPolicy policy({});
  const RestartDecision decision = fail(policy, seconds(60));
  CHECK_FALSE(decision.restart);
  CHECK(decision.why.empty());
}

TEST_CASE_METHOD(Fixture, "the budget is counted down and named when it is spent") {
  RestartPolicy policy({.max_restarts = 2});
  CHECK(fail(policy, seconds(60)).why == "restart 1 of 2");
  CHECK(fail(policy, seconds(60)).why == "restart 2 of 2");
  CHECK(policy.restarts_used() == 2);
  const RestartDecision decision = fail(policy, seconds(60));
  CHECK_FALSE(decision.restart);
  CHECK(decision.why == "the restart budget is spent: 2 of 2");
  CHECK(policy.restarts_used() == 2);
}

TEST_CASE_METHOD(Fixture, "restarts older than the window are forgotten, but the count goes on") {
  RestartPolicy policy({.max_restarts = 1, .max_restarts_window = seconds(100)});
  CHECK(fail(policy, seconds(60)).restart);
  const RestartDecision refused = fail(policy, seconds(99));
  CHECK_FALSE(refused.restart);
  CHECK(refused.why == "the restart budget is spent: 1 of 1 within 1 min 40 s");
  CHECK(fail(policy, seconds(1)).restart);
  CHECK(policy.restarts_used() == 2);
}

TEST_CASE_METHOD(Fixture, "restarts that somebody else granted before count") {
  RestartPolicy policy({.max_restarts = 2});
  policy.continue_from(1, clock.now());
  CHECK(fail(policy, seconds(60)).why == "restart 2 of 2");
  CHECK_FALSE(fail(policy, seconds(60)).restart);
}

TEST_CASE_METHOD(Fixture, "the first restart is immediate, also after a short life") {
  RestartPolicy policy({.max_restarts = 5});
  CHECK(fail(policy, milliseconds(10)).restart->delay == Duration::zero());
}

TEST_CASE_METHOD(Fixture, "the delay of a crash loop doubles up to its limit") {
  RestartPolicy policy({.max_restarts = 50});
  fail(policy, milliseconds(10));
  const RestartDecision second = fail(policy, milliseconds(10));
  CHECK(second.restart->delay == milliseconds(500));
  CHECK(second.why == "restart 2 of 50, in 500 ms because the last 2 generations lived less than 3.0 s each");
  CHECK(fail(policy, milliseconds(10)).restart->delay == seconds(1));
  CHECK(fail(policy, milliseconds(10)).restart->delay == seconds(2));
  Duration last{};
  for (int i = 0; i < 30; ++i) last = fail(policy, milliseconds(10)).restart->delay;
  CHECK(last == seconds(30));
}

TEST_CASE_METHOD(Fixture, "a generation that lived ends the crash loop") {
  RestartPolicy policy({.max_restarts = 50});
  for (int i = 0; i < 5; ++i) fail(policy, milliseconds(10));
  CHECK(fail(policy, seconds(3)).restart->delay == Duration::zero());
  CHECK(fail(policy, milliseconds(10)).restart->delay == Duration::zero());
}

TEST_CASE_METHOD(Fixture, "a refused restart is told behind what failed, to who has asked for one") {
  RestartPolicy none({});
  CHECK(refusal_of(fail(none, seconds(60)), "rank 0 exited with code 7") == "rank 0 exited with code 7");
  RestartPolicy spent({.max_restarts = 1});
  CHECK(fail(spent, seconds(60)).restart);
  CHECK(refusal_of(fail(spent, seconds(60)), "rank 0 exited with code 7") ==
        "rank 0 exited with code 7; the restart budget is spent: 1 of 1");
}

TEST_CASE_METHOD(Fixture, "a restart that is granted says which of how many it is, and when") {
  RestartPolicy policy({.max_restarts = 2});
  fail(policy, seconds(1));
  const std::optional<Restart> restart = fail(policy, seconds(1)).restart;
  REQUIRE(restart);
  CHECK(restart->number == 2);
  CHECK(restart->allowed == 2);
  CHECK(restart->delay == milliseconds(500));
}
