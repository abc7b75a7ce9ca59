#include "tests/scenario/membership/simulation.h"

#include "tests/support/catch.h"

#include <cstdlib>
#include <string>

namespace ddprun::membership::testing {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

// DDPRUN_SCHEDULES=1000000 plays a million; DDPRUN_FIRST_SEED=n starts at n, to repeat one.
TEST_CASE("membership keeps its promises on every schedule") {
  const std::uint64_t first = from_environment("DDPRUN_FIRST_SEED", 1);
  const std::uint64_t count = from_environment("DDPRUN_SCHEDULES", 10000);
  ScheduleStats total;
  std::uint64_t ended = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    ScheduleStats stats;
    const std::string broken = play_schedule(seed, stats);
    INFO("DDPRUN_FIRST_SEED=" << seed << " DDPRUN_SCHEDULES=1");
    REQUIRE(broken == "");
    total.generations += stats.generations;
    total.messages += stats.messages;
    total.lost_messages += stats.lost_messages;
    total.crashes += stats.crashes;
    total.kills_by_lease += stats.kills_by_lease;
    ended += stats.ended ? 1 : 0;
  }
  WARN(count << " schedules: " << total.generations << " generations, " << total.messages << " messages ("
             << total.lost_messages << " lost), " << total.crashes << " crashes, " << total.kills_by_lease
             << " kills by lease, " << ended << " jobs ended");
  if (count < 1000) return;
  // The faults are there: else the promises above would be cheap.
  CHECK(total.generations > static_cast<int>(count));
  CHECK(total.lost_messages > 0);
  CHECK(total.crashes > 0);
  CHECK(total.kills_by_lease > 0);
}

}  // namespace ddprun::membership::testing
