#include "worker/training/state/position.h"

#include "tests/support/catch.h"
#include "worker/training/job_size.h"
#include <ddprun/exception.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::training;

TEST_CASE("a position survives its checkpoint") {
  Position position;
  position.epoch = 2;
  position.step = 141;
  position.samples_seen = 640;
  position.epoch_loss = {12.5, 640};
  position.evaluation = Evaluation{{{"loss", 30.25}, {"accuracy", 970}}, 1000};
  position.more_evaluations = {{"photos", Evaluation{{{"loss", 8}, {"accuracy", 3}}, 4}}};
  position.plateau = {.metric = "accuracy", .best = 0.5, .best_epoch = 1, .evaluations = 3};
  position.world = {.ranks = 4, .global_batch = 256};
  const Position back = read_position(to_dict(position));
  CHECK(back.epoch == 2);
  CHECK(back.step == 141);
  CHECK(back.samples_seen == 640);
  CHECK(back.epoch_loss.mean() == 12.5 / 640);
  CHECK(back.evaluation->mean(1) == 0.97);
  CHECK(back.evaluation->sums == position.evaluation->sums);
  CHECK(last_value(back, "accuracy") == 0.97);
  CHECK(last_value(back, "photos/accuracy") == 0.75);
  CHECK_FALSE(last_value(back, "photos/error"));
  CHECK(back.plateau.best == 0.5);
  CHECK(back.plateau.evaluations == 3);
  CHECK(back.world == position.world);
  CHECK_FALSE(read_position(to_dict(Position{})).evaluation);
}

TEST_CASE("a position that lacks something is damaged") {
  PtDict dict = to_dict(Position{});
  dict.entries.erase(dict.entries.begin());
  CHECK_THROWS_AS(read_position(dict), Exception);
}

// Four ranks repeat two of ten samples to have three each. Who has seen the ten has seen the epoch, whatever the
// next world is.
TEST_CASE("an epoch is over when its samples were seen, with or without what ranks repeat") {
  const JobLength length{.epochs = 2, .epoch_samples = 10};
  CHECK_FALSE(is_epoch_over({.samples_seen = 9}, length));
  CHECK(is_epoch_over({.samples_seen = 10}, length));
  CHECK(is_epoch_over({.samples_seen = 12}, length));
}

TEST_CASE("a job is complete after its epochs or its steps") {
  CHECK_FALSE(is_complete({.epoch = 1, .step = 7}, {.epochs = 2}));
  CHECK(is_complete({.epoch = 2, .step = 7}, {.epochs = 2}));
  CHECK(is_complete({.epoch = 1, .step = 7}, {.epochs = 2, .max_steps = 7}));
}

TEST_CASE("a job is complete when its patience is over, unless it has more by now") {
  const Position position{.epoch = 1, .plateau = {.metric = "loss", .evaluations = 3}};
  CHECK(is_complete(position, {.epochs = 9, .patience = 3}));
  CHECK_FALSE(is_complete(position, {.epochs = 9, .patience = 4}));
  CHECK_FALSE(is_complete(position, {.epochs = 9}));
}

TEST_CASE("a job whose patience is over with its last epoch or step was not stopped early") {
  const Position position{.epoch = 3, .step = 30, .plateau = {.metric = "loss", .evaluations = 3}};
  CHECK(is_stopped_early(position, {.epochs = 4, .patience = 3}));
  CHECK_FALSE(is_stopped_early(position, {.epochs = 3, .patience = 3}));
  CHECK_FALSE(is_stopped_early(position, {.epochs = 4, .max_steps = 30, .patience = 3}));
}

TEST_CASE("what is left of a job is counted in samples") {
  const Position position{
      .epoch = 1, .step = 14, .samples_seen = 40, .world = {.ranks = 2, .global_batch = 10}};
  CHECK(samples_left(position, {.epochs = 3, .epoch_samples = 100}) == 160);
  CHECK(samples_left(position, {.epochs = 3, .max_steps = 20, .epoch_samples = 100}) == 60);
  CHECK(samples_left({.epoch = 3}, {.epochs = 3, .epoch_samples = 100}) == 0);
}

TEST_CASE("the last checkpoint was due after so many steps or at the end of an epoch, whichever came later") {
  const JobSize size{.world = {.ranks = 2, .global_batch = 10}, .steps_per_epoch = 10};
  const auto due = [&](std::int64_t every_steps, std::int64_t every_epochs, const Position& position) {
    LoopOptions options;
    options.checkpoint_every_steps = every_steps;
    options.checkpoint_every_epochs = every_epochs;
    return last_due_checkpoint(options, position, size);
  };
  CHECK(due(0, 0, {.epoch = 1, .step = 14, .samples_seen = 40}) == 0);
  CHECK(due(3, 0, {.epoch = 1, .step = 14, .samples_seen = 40}) == 12);
  CHECK(due(5, 0, {.step = 4, .samples_seen = 40}) == 0);
  CHECK(due(0, 1, {.epoch = 1, .step = 14, .samples_seen = 40}) == 10);
  CHECK(due(0, 1, {.step = 4, .samples_seen = 40}) == 0);
  CHECK(due(3, 1, {.epoch = 1, .step = 11, .samples_seen = 10}) == 10);
  CHECK(due(0, 2, {.epoch = 3, .step = 31, .samples_seen = 10}) == 20);
}

TEST_CASE("data that does not give each rank a sample is refused with the numbers") {
  for (const bool drop_last : {false, true}) {
    LoopOptions options;
    options.drop_last = drop_last;
    CHECK_THROWS_WITH(size_of_job(options, 0, 2), "the training data has 0 samples; use more data");
    CHECK_THROWS_WITH(
        size_of_job(options, 1, 2),
        "the training data has 1 sample, and 2 ranks need one each; use fewer ranks, or more data");
    CHECK_THROWS_WITH(
        size_of_job(options, 7, 8),
        "the training data has 7 samples, and 8 ranks need one each; use fewer ranks, or more data");
    // Less than one batch of all ranks together is enough.
    CHECK(size_of_job(options, 8, 8).steps_per_epoch == 1);
  }
}

TEST_CASE("without its last batch an epoch is as many whole ones, and there has to be one") {
  LoopOptions options;
  options.batch_size = 8;
  options.drop_last_batch = true;
  const JobSize size = size_of_job(options, 101, 4);
  CHECK(size.steps_per_epoch == 3);
  CHECK(size.length.epoch_samples == 96);
  CHECK(size.last_batch == 8);
  CHECK_THROWS_WITH(
      size_of_job(options, 20, 4),
      "/train/drop_last_batch: a rank has 5 samples, which are no whole batch of 8; use a smaller "
      "/train/batch_size, or more data");
}

TEST_CASE(
    "a warm-up is refused when it is not over at the end of the job, whose epochs each end with a step") {
  LoopOptions options;
  options.epochs = 20;
  options.batch_size = 8;
  const auto check = [&](std::int64_t warmup_steps, const Position& position) {
    check_schedule(warmup_steps, position, size_of_job(options, 10, 1));
  };
  // Two steps an epoch, of 8 samples and of 2.
  CHECK_NOTHROW(check(39, {}));
  CHECK_THROWS_WITH(
      check(40, {}),
      "/schedule/warmup_steps: the warm-up of 40 steps is not over when the job ends after 40 (20 epochs "
      "in this world of 1 ranks); shorten it, or train longer");
  CHECK_NOTHROW(check(39, {.epoch = 18, .step = 37, .samples_seen = 8}));
  CHECK_THROWS(check(40, {.epoch = 18, .step = 37, .samples_seen = 8}));
  CHECK_NOTHROW(check(50, {.epoch = 20, .step = 40}));
  options.max_steps = 25;
  CHECK_NOTHROW(check(24, {}));
  CHECK_THROWS_WITH(check(25, {}), Catch::Matchers::Contains("the job ends after 25 "));
}

TEST_CASE("a reduction is refused when the steps of a job end before it, with the numbers") {
  LoopOptions options;
  options.epochs = 10;
  options.batch_size = 2;
  options.max_steps = 5;
  const auto check = [&](std::vector<Reduction> reductions, const Position& position) {
    options.reductions = std::move(reductions);
    check_schedule(options.warmup_steps, position, size_of_job(options, 64, 2));
  };
  // 16 steps an epoch.
  const std::vector<Reduction> milestones{{"/schedule/milestones/0", 0.25}, {"/schedule/milestones/1", 9}};
  CHECK_THROWS_WITH(
      check(milestones, {}),
      "/schedule/milestones/1: is never reached: the rate is reduced 9 epochs in, and the job's last "
      "step, 5, begins after 0.25 (/train/epochs is 10, /train/max_steps 5, and an epoch has 16 steps in "
      "this "
      "world of 2 ranks); "
      "reduce it earlier, or train longer");
  CHECK_NOTHROW(check({{"/schedule/milestones/0", 0.25}}, {}));
  CHECK_THROWS(check({{"/schedule/milestones/0", 0.3}}, {}));  // the fifth step begins after 0.25
  CHECK_NOTHROW(check(milestones, {.step = 5, .samples_seen = 20}));
  options.max_steps = 16;
  CHECK_THROWS_WITH(check({{"/schedule/step_epochs", 1}}, {}),
                    Catch::Matchers::Contains("the job's last step, 16, begins after 0.9375 "));
  options.max_steps = 17;
  CHECK_NOTHROW(check({{"/schedule/step_epochs", 1}}, {}));
  // What another world has made of the steps counts as it was: one epoch more here, after its rest of two steps.
  options.max_steps = 118;
  CHECK_NOTHROW(check({{"/schedule/milestones/0", 1.9}}, {.step = 100, .samples_seen = 56}));
  CHECK_NOTHROW(check({{"/schedule/milestones/0", 2}}, {.step = 100, .samples_seen = 56}));
  options.max_steps = 0;
  CHECK_NOTHROW(check({{"/schedule/milestones/0", 9.9}}, {}));
  // The last step, of 160, begins after 9.9375.
  CHECK_THROWS_WITH(check({{"/schedule/milestones/0", 9.95}}, {}),
                    Catch::Matchers::Contains("the job's last step, 160, begins after 9.9375 "));
}

TEST_CASE("the reductions of a job are its milestones, or the first of its steps") {
  const auto read = [](const std::string& schedule) {
    nlohmann::json job = nlohmann::json::parse(R"({"output_dir": "out", "seed": 0, "divergence_check": 0,
      "train": {"epochs": 1, "max_steps": 0, "batch_size": 1, "accumulation_steps": 1, "eval_batch_size": 1,
                "eval_every_epochs": 1, "drop_last": false, "drop_last_batch": false},
      "data": {"loader_threads": 1, "prefetch_batches": 1}, "log": {"every_steps": 1},
      "checkpoint": {"every_epochs": 1, "every_steps": 0, "memory_every_steps": 0, "keep": 1, "best": 0,
                     "on_write_error": "end", "best_by": "loss"},
      "early_stopping": {"patience": 0, "metric": "loss", "min_delta": 0}})");
    job["schedule"] = nlohmann::json::parse(schedule);
    std::vector<std::string> words;
    for (const Reduction& reduction : read_loop_options(Options(job.dump())).reductions)
      words.push_back(fmt::format("{} {}", reduction.key, reduction.epochs));
    return words;
  };
  using Words = std::vector<std::string>;
  CHECK(read(R"({"type": "multi_step", "warmup_steps": 0, "milestones": [0.5, 9]})") ==
        Words{"/schedule/milestones/0 0.5", "/schedule/milestones/1 9"});
  CHECK(read(R"({"type": "step", "warmup_steps": 0, "step_epochs": 3})") == Words{"/schedule/step_epochs 3"});
  CHECK(read(R"({"type": "cosine", "warmup_steps": 0})").empty());
}
