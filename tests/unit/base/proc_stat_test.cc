#include "rendezvous/base/proc_stat.h"

#include "tests/support/catch.h"

using namespace ddprun;

TEST_CASE("a field of stat is found behind a command of any characters") {
  constexpr const char* kStat = "4711 (a) b 7 (c)) S 1 4711 4711 0 -1 4194560\n";
  CHECK(stat_field(kStat, 3) == "S");
  CHECK(stat_field(kStat, 4) == "1");
  CHECK(stat_number(kStat, 9) == 4194560);
}

TEST_CASE("a field of stat that is not there is empty, and 0 as a number") {
  CHECK(stat_field("4711 (a) S 1", 5).empty());
  CHECK(stat_field("4711", 3).empty());
  CHECK(stat_number("4711 (a) S 1", 5) == 0);
}

TEST_CASE("what of a process lies in memory is read, and 0 for none") {
  CHECK(resident_bytes("/proc/self") > 0);
  CHECK(resident_bytes("/proc/none") == 0);
}
