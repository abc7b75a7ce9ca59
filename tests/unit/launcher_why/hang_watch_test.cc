#include "launcher/why/hang/hang_watch.h"

#include "tests/support/catch.h"

#include <chrono>
#include <optional>

using namespace ddprun::launcher::why;

TEST_CASE("the flag goes before the job file, whose default is nobody's wish") {
  using std::chrono::seconds;
  const auto limits = [](std::optional<seconds> flag, std::optional<JobHangTimeout> job) {
    ddprun::launcher::Options options;
    options.hang_timeout = flag;
    return hang_limits(options, job);
  };
  const HangLimits by_default = limits({}, JobHangTimeout{.seconds = 600});
  CHECK(by_default.timeout_s == 600);
  CHECK_FALSE(by_default.is_timeout_asked);
  CHECK_FALSE(by_default.is_asked);
  CHECK(limits({}, JobHangTimeout{.seconds = 600, .is_asked = true}).is_timeout_asked);
  CHECK(limits(seconds(5), JobHangTimeout{.seconds = 600}).timeout_s == 5);
  CHECK(limits(seconds(0), JobHangTimeout{.seconds = 600, .is_asked = true}).timeout_s == 0);
  CHECK(limits({}, {}).timeout_s == 0);
}
