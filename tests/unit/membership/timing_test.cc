#include "rendezvous/membership/timing.h"

#include "tests/support/catch.h"

namespace ddprun::membership {

using namespace std::chrono_literals;

TEST_CASE("--rdzv-conf keys of torchrun keep their meaning") {
  const Timing timing = parse_rdzv_conf({{"join_timeout", "30"},
                                         {"last_call_timeout", "0.5"},
                                         {"keep_alive_interval", "0.2"},
                                         {"keep_alive_max_attempt", "4"},
                                         {"timeout", "900"}})
                            .value()
                            .timing;
  CHECK(timing.join_timeout == 30s);
  CHECK(timing.debounce == 500ms);
  CHECK(timing.liveness() == 800ms);
}

TEST_CASE("a node that is not answered stops before the others may go on") {
  CHECK(Timing{}.lease() < Timing{}.liveness());
  CHECK(Timing{.heartbeat = 200ms, .missed_heartbeats = 4}.lease() == 640ms);
}

TEST_CASE("bad --rdzv-conf is refused with the key, the value and what is wanted") {
  const auto message = [](const std::string& key, const std::string& value) {
    return parse_rdzv_conf({{key, value}}).error().message();
  };
  CHECK(message("join_timeuot", "3") ==
        "unknown key \"join_timeuot\", known are join_timeout, last_call_timeout, keep_alive_interval, "
        "keep_alive_max_attempt, rejoin_timeout, is_host; did you mean \"join_timeout\"?");
  CHECK(message("join_timeout", "soon") == "join_timeout must be seconds, at least 0.001, got \"soon\"");
  CHECK(message("last_call_timeout", "-1") == "last_call_timeout must be seconds, 0 or more, got \"-1\"");
  CHECK(message("keep_alive_interval", "100000") ==
        "keep_alive_interval must be seconds, 0.001 to 86400 (a day), got \"100000\"");
  CHECK(message("keep_alive_max_attempt", "1") ==
        "keep_alive_max_attempt must be a whole number from 2 to 1000, got \"1\"");
}

}  // namespace ddprun::membership
