#include "worker/training/parts/schedule.h"

#include "tests/support/catch.h"

#include <vector>

using namespace ddprun;
using namespace ddprun::training;

namespace {

Schedule make(const std::string& type, const std::string& options, std::int64_t warmup_steps = 0) {
  DecayRegistry decays("schedule");
  register_decays(decays);
  return {warmup_steps, decays.at(type).make(Options(options))};
}

constexpr std::int64_t kEpochSamples = 1000;

/// The factors of each step of a job of `epochs` epochs, by steps of `global_batch` samples from `position` on.
std::vector<double> factors(Schedule& schedule, Position& position, std::int64_t steps, std::int64_t epochs,
                            std::int64_t global_batch) {
  const JobLength length{.epochs = epochs, .epoch_samples = kEpochSamples};
  std::vector<double> all;
  for (std::int64_t i = 0; i < steps; ++i) {
    all.push_back(schedule.factor(progress_of(position, length), length));
    ++position.step;
    position.samples_seen += global_batch;
    if (!is_epoch_over(position, length)) continue;
    ++position.epoch;
    position.samples_seen = 0;
  }
  return all;
}

std::vector<double> factors(Schedule schedule, std::int64_t steps, std::int64_t epochs = 10,
                            std::int64_t global_batch = 100) {
  Position position;
  return factors(schedule, position, steps, epochs, global_batch);
}

}  // namespace

TEST_CASE("warm-up rises in equal steps and reaches the base rate after its last step") {
  const auto rates = factors(make("constant", "{}", 3), 100);
  CHECK(rates[0] == Approx(0.25));
  CHECK(rates[2] == Approx(0.75));
  CHECK(rates[3] == 1);
  CHECK(rates[99] == 1);
}

TEST_CASE("a cosine falls from one at its first step towards the final factor at the end of the job") {
  const auto rates = factors(make("cosine", R"({"final_factor": 0.1})"), 100);
  CHECK(rates[0] == 1);
  CHECK(rates[50] == Approx(0.55));
  CHECK(rates[99] == Approx(0.1).margin(0.001));
}

TEST_CASE("a cosine after a warm-up begins where that ends") {
  const auto rates = factors(make("cosine", R"({"final_factor": 0})", 20), 100);
  CHECK(rates[20] == 1);
  CHECK(rates[60] == Approx(0.5));
}

TEST_CASE("a linear schedule is half-way at half time") {
  CHECK(factors(make("linear", R"({"final_factor": 0.5})"), 100)[50] == Approx(0.75));
}

TEST_CASE("a step schedule multiplies by gamma every so many epochs") {
  const auto rates = factors(make("step", R"({"step_epochs": 2, "gamma": 0.5})"), 100);
  CHECK(rates[19] == 1);
  CHECK(rates[20] == 0.5);
  CHECK(rates[40] == 0.25);
}

TEST_CASE("milestones are epochs, also fractions of them") {
  const auto rates = factors(make("multi_step", R"({"milestones": [1, 2.5], "gamma": 0.1})"), 40);
  CHECK(rates[9] == 1);
  CHECK(rates[10] == Approx(0.1));
  CHECK(rates[24] == Approx(0.1));
  CHECK(rates[25] == Approx(0.01));
}

// Half of a job with steps of 200 samples, then the rest with steps of `then`: the rate that follows the half is
// that of a job which never changed.
TEST_CASE("a job that goes on in another world goes on with its learning rate") {
  const std::int64_t then = GENERATE(50, 100, 500, 1000);
  const std::int64_t warmup = GENERATE(0, 7);
  Schedule schedule = make("cosine", R"({"final_factor": 0})", warmup);
  Position position;
  const auto before = factors(schedule, position, 25, 10, 200);
  const auto unchanged = factors(make("cosine", R"({"final_factor": 0})", warmup), 50, 10, 200);
  CHECK(before.back() == unchanged[24]);
  const std::int64_t rest = 5000 / then;
  const auto after = factors(schedule, position, rest, 10, then);
  CHECK(after.front() == unchanged[25]);
  CHECK(after.back() < 0.3);
  CHECK(position.epoch == 10);
}

TEST_CASE("a resumed schedule remembers where its warm-up ended") {
  Schedule schedule = make("cosine", R"({"final_factor": 0})", 10);
  Position position;
  static_cast<void>(factors(schedule, position, 20, 10, 100));
  Schedule resumed = make("cosine", R"({"final_factor": 0})", 10);
  resumed.set_warmup_end(schedule.warmup_end());
  const JobLength length{.epochs = 10, .epoch_samples = kEpochSamples};
  const Progress next = progress_of(position, length);
  CHECK(resumed.factor(next, length) == schedule.factor(next, length));
}

TEST_CASE("a job that is made longer after its warm-up has the rates of one that was always so long") {
  Schedule schedule = make("cosine", R"({"final_factor": 0})", 20);
  Position position;
  static_cast<void>(factors(schedule, position, 40, 4, 100));
  const auto longer = factors(schedule, position, 60, 40, 100);
  const auto always = factors(make("cosine", R"({"final_factor": 0})", 20), 100, 40);
  for (std::size_t i = 0; i < longer.size(); ++i) CHECK(longer[i] == always[40 + i]);
}

TEST_CASE("max_steps ends a schedule where it ends the job") {
  const JobLength length{.epochs = 1000, .max_steps = 50, .epoch_samples = kEpochSamples};
  CHECK(share_of({.step = 25, .epochs = 0.01}, length) == 0.5);
  CHECK(share_of({.step = 25, .epochs = 900}, length) == 0.9);
  CHECK(share_of({.step = 50, .epochs = 1000}, length) == 1);
}
