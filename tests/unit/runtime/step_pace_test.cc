#include "worker/runtime/process/drain/step_pace.h"

#include "tests/support/catch.h"

#include <chrono>

using namespace ddprun;
using ddprun::runtime::StepPace;
using namespace std::chrono_literals;

namespace {

/// A process that has made steps of these lengths, beginning at 0.
struct Paced {
  explicit Paced(std::initializer_list<Duration> steps) {
    pace.step_done(now);
    for (const Duration step : steps) pace.step_done(now += step);
  }
  TimePoint now{};
  StepPace pace;
};

}  // namespace

TEST_CASE("before its first step a process has not begun") {
  StepPace pace;
  CHECK_FALSE(pace.has_begun());
  pace.step_done(TimePoint(1s));
  CHECK(pace.has_begun());
}

TEST_CASE("the stop lies as many steps ahead as fit into the time a signal needs, and two") {
  CHECK(Paced({10ms, 10ms, 10ms}).pace.margin(500ms) == 52);
  CHECK(Paced({2s, 2s}).pace.margin(500ms) == 2);
}

TEST_CASE("the pace is known from the second step on, and no stop lies beyond reason") {
  CHECK_FALSE(Paced({}).pace.is_known());
  CHECK(Paced({2s}).pace.is_known());
  CHECK(Paced({1ns}).pace.margin(500ms) == 500002);
}

TEST_CASE("an evaluation between two steps does not bring the stop near") {
  CHECK(Paced({10ms, 10ms, 60s}).pace.margin(500ms) > 40);
}

TEST_CASE("without progress for the patience and five of its longest steps a process is stuck") {
  const Paced quick({10ms});
  CHECK_FALSE(quick.pace.is_stuck(100ms, quick.now + 100ms));
  CHECK(quick.pace.is_stuck(100ms, quick.now + 101ms));
  const Paced slow({1s});
  CHECK_FALSE(slow.pace.is_stuck(100ms, slow.now + 5s));
  CHECK(slow.pace.is_stuck(100ms, slow.now + 5001ms));
}

TEST_CASE("a process that takes its time is not stuck until its next step") {
  Paced saving({10ms});
  saving.pace.measure_step(saving.now);
  CHECK_FALSE(saving.pace.is_stuck(100ms, saving.now + 1h));
  saving.pace.step_done(saving.now += 1h);
  CHECK(saving.pace.is_stuck(100ms, saving.now + 101ms));
}

TEST_CASE("what a process has needed before it took its time counts as well") {
  Paced keeping({});
  for (int step = 0; step < 3; ++step) {
    keeping.pace.measure_step(keeping.now += 1s);
    keeping.pace.progress(keeping.now += 50ms);
    keeping.pace.step_done(keeping.now += 1ms);
  }
  CHECK_FALSE(keeping.pace.is_stuck(100ms, keeping.now + 5s));
  CHECK(keeping.pace.is_stuck(100ms, keeping.now + 5001ms));
}
