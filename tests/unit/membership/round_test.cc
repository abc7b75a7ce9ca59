#include "rendezvous/membership/round.h"

#include "tests/support/catch.h"

namespace ddprun::membership {

using namespace std::chrono_literals;

namespace {
const TimePoint kStart{};
const Timing kTiming{.join_timeout = 600s, .debounce = 2s};
}  // namespace

TEST_CASE("a round of fixed size closes the moment the last node is there") {
  const JobSpec spec{.min_nodes = 4, .max_nodes = 4};
  const RoundDecision decision = decide_round(spec, kTiming, {.ready = 4}, kStart);
  CHECK(decision.verdict == RoundVerdict::kClose);
  CHECK(decision.why == "all 4 nodes are here");
}

TEST_CASE("an elastic round waits a little for more after MIN, counted from the last arrival") {
  const JobSpec spec{.min_nodes = 2, .max_nodes = 4};
  const RoundView view{.ready = 3, .last_arrival = kStart + 5s};
  const RoundDecision decision = decide_round(spec, kTiming, view, kStart + 6s);
  CHECK(decision.verdict == RoundVerdict::kWait);
  CHECK(decision.decide_again_at == kStart + 7s);
  CHECK(decision.why == "3 of 2 to 4 nodes are here; giving others 2 s");
  const RoundDecision later = decide_round(spec, kTiming, view, kStart + 7s);
  CHECK(later.verdict == RoundVerdict::kClose);
  CHECK(later.why == "3 of 2 to 4 nodes are here and none came in the last 2 s");
}

TEST_CASE("after a restart nobody is waited for once the survivors are back") {
  const JobSpec spec{.min_nodes = 2, .max_nodes = 4};
  const RoundDecision decision = decide_round(spec, kTiming, {.ready = 3, .is_first = false}, kStart);
  CHECK(decision.verdict == RoundVerdict::kClose);
  CHECK(decision.why == "all that are left are back: 3 of at least 2");
}

TEST_CASE("fewer than MIN are never a world, and are given up after join_timeout") {
  const JobSpec spec{.min_nodes = 3, .max_nodes = 3};
  CHECK(decide_round(spec, kTiming, {.ready = 2}, kStart + 599s).verdict == RoundVerdict::kWait);
  const RoundDecision late = decide_round(spec, kTiming, {.ready = 2}, kStart + 600s);
  CHECK(late.verdict == RoundVerdict::kGiveUp);
  CHECK(late.why == "2 of 3 nodes came within 600 s");
}

}  // namespace ddprun::membership
