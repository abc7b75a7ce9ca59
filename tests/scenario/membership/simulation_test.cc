#include "tests/scenario/membership/simulation.h"

#include "tests/support/catch.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace ddprun::membership::testing {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// One seed a line; lines that begin with # are for people.
std::vector<std::uint64_t> remembered_seeds() {
  std::ifstream file(std::getenv("DDPRUN_SEEDS"));
  REQUIRE(file.good());
  std::vector<std::uint64_t> seeds;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.front() != '#') seeds.push_back(std::stoull(line));
  }
  return seeds;
}

void play(std::uint64_t seed, ScheduleStats& stats) {
  const std::string broken = play_schedule(seed, stats);
  INFO("DDPRUN_FIRST_SEED=" << seed << " DDPRUN_SCHEDULES=1");
  REQUIRE(broken == "");
}

// Plays until the defect shows.
std::string first_broken_promise(Defect defect) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    ScheduleStats stats;
    if (std::string broken = play_schedule(seed, stats, defect); !broken.empty()) return broken;
  }
  return "none";
}

}  // namespace

TEST_CASE("membership keeps its promises on schedules that broke one before") {
  for (const std::uint64_t seed : remembered_seeds()) {
    ScheduleStats stats;
    play(seed, stats);
  }
}

// DDPRUN_SCHEDULES=1000000 plays a million; DDPRUN_FIRST_SEED=n starts at n, to repeat one.
TEST_CASE("membership keeps its promises on every schedule") {
  const std::uint64_t first = from_environment("DDPRUN_FIRST_SEED", 1);
  const std::uint64_t count = from_environment("DDPRUN_SCHEDULES", 10000);
  std::uint64_t generations = 0;
  std::uint64_t messages = 0;
  std::uint64_t lost_messages = 0;
  std::uint64_t crashes = 0;
  std::uint64_t kills_by_lease = 0;
  std::uint64_t ended = 0;
  std::uint64_t with_hundreds = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    ScheduleStats stats;
    play(seed, stats);
    generations += static_cast<std::uint64_t>(stats.generations);
    messages += static_cast<std::uint64_t>(stats.messages);
    lost_messages += static_cast<std::uint64_t>(stats.lost_messages);
    crashes += static_cast<std::uint64_t>(stats.crashes);
    kills_by_lease += static_cast<std::uint64_t>(stats.kills_by_lease);
    ended += stats.ended ? 1 : 0;
    with_hundreds += stats.hosts >= 100 ? 1 : 0;
  }
  WARN(count << " schedules (" << with_hundreds << " of 100 to 400 agents): " << generations
             << " generations, " << messages << " messages (" << lost_messages << " lost), " << crashes
             << " crashes, " << kills_by_lease << " kills by lease, " << ended << " jobs ended");
  if (count < 1000) return;
  // The faults are there: else the promises above would be cheap.
  CHECK(generations > count);
  CHECK(ended < count);
  CHECK(with_hundreds > 0);
  CHECK(lost_messages > count);
  CHECK(crashes > count / 10);
  CHECK(kills_by_lease > count / 10);
}

TEST_CASE("the simulation notices a lease that is longer than the time after which a node is given up") {
  CHECK_THAT(first_broken_promise(Defect::kLongLease), Catch::Contains("started workers of generation"));
}

TEST_CASE("the simulation notices a next generation that does not wait for a node whose connection broke") {
  CHECK_THAT(first_broken_promise(Defect::kNoFence), Catch::Contains("started workers of generation"));
}

TEST_CASE("the simulation notices an agent that says too early that no worker is alive") {
  CHECK_THAT(first_broken_promise(Defect::kSaysIdleTooEarly),
             Catch::Contains("workers") || Catch::Contains("round begins in state draining"));
}

TEST_CASE("the simulation notices ranks that are not kept") {
  CHECK_THAT(first_broken_promise(Defect::kRanksMove), Catch::Contains("a survivor of rank"));
}

TEST_CASE("the simulation notices a rank that is given twice") {
  CHECK(first_broken_promise(Defect::kRanksTwice) == "two nodes with one rank");
}

TEST_CASE("the simulation notices a success that is forgotten with a lost lease or connection") {
  CHECK_THAT(first_broken_promise(Defect::kForgetsSuccess), Catch::Contains("all its workers had succeeded"));
}

TEST_CASE("the simulation notices a node that waits for a message that was lost") {
  CHECK_THAT(first_broken_promise(Defect::kSeatToldOnce), Catch::Contains("have worked for"));
}

}  // namespace ddprun::membership::testing
