#include "worker/training/schedule.h"

#include "tests/support/catch.h"

using namespace ddprun::training;

namespace {

constexpr JobLength kLength{10, 100};

double factor(const ScheduleConfig& schedule, std::int64_t step) {
  return learning_rate_factor(schedule, kLength, step);
}

}  // namespace

TEST_CASE("warm-up rises in equal steps and reaches the base rate after its last step") {
  ScheduleConfig schedule;
  schedule.warmup_steps = 3;
  CHECK(factor(schedule, 0) == Approx(0.25));
  CHECK(factor(schedule, 2) == Approx(0.75));
  CHECK(factor(schedule, 3) == Approx(1));
  CHECK(factor(schedule, 99) == Approx(1));
}

TEST_CASE("cosine falls from one at its first step to the final factor at the last step of the job") {
  ScheduleConfig schedule;
  schedule.type = "cosine";
  schedule.final_factor = 0.1;
  CHECK(factor(schedule, 0) == Approx(1));
  CHECK(factor(schedule, 99) == Approx(0.1));
  CHECK(factor(schedule, 50) < factor(schedule, 49));
  CHECK(factor(schedule, 200) == Approx(0.1));
}

TEST_CASE("a step schedule multiplies by gamma every so many epochs") {
  ScheduleConfig schedule;
  schedule.type = "step";
  schedule.step_epochs = 2;
  schedule.gamma = 0.5;
  CHECK(factor(schedule, 19) == Approx(1));
  CHECK(factor(schedule, 20) == Approx(0.5));
  CHECK(factor(schedule, 40) == Approx(0.25));
}
