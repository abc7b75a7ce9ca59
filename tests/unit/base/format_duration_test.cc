#include "rendezvous/base/format_duration.h"

#include "tests/support/catch.h"

#include <chrono>

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("a time is shown as exactly as is of use") {
  CHECK(format_duration(1ms) == "1 ms");
  CHECK(format_duration(2500us) == "2.5 ms");
  CHECK(format_duration(250ms) == "250 ms");
  CHECK(format_duration(3210ms) == "3.2 s");
  CHECK(format_duration(30s) == "30.0 s");
  CHECK(format_duration(250s) == "4 min 10 s");
  CHECK(format_duration(2h + 5min + 50s) == "2 h 5 min");
}

TEST_CASE("a time of whole minutes or hours is shown with these alone") {
  CHECK(format_duration(3min) == "3 min");
  CHECK(format_duration(48h) == "48 h");
}

TEST_CASE("a short time is never shown as none, and none as none") {
  CHECK(format_duration(1ns) == "0.1 ms");
  CHECK(format_duration(0s) == "0.0 s");
}

TEST_CASE("a time that is rounded up to a unit is shown in that unit") {
  CHECK(format_duration(9960us) == "10 ms");
  CHECK(format_duration(999'600us) == "1.0 s");
  CHECK(format_duration(99'960ms) == "1 min 40 s");
  CHECK(format_duration(3599'600ms) == "1 h");
}
