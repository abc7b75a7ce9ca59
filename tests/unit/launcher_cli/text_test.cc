#include "launcher/text/text.h"

#include "tests/support/catch.h"

using namespace ddprun::launcher;

TEST_CASE("numbers are shown as exactly as is of use") {
  CHECK(format_bytes(512) == "512 B");
  CHECK(format_bytes(64ULL << 20) == "64 MiB");
  CHECK(format_bytes(1610612736) == "1.5 GiB");
}

TEST_CASE("the last lines of a progress bar are its last states") {
  const auto lines = last_lines("10%\r20%\r30%\n\nend", 2);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "30%");
  CHECK(lines[1] == "end");
}

TEST_CASE("what would disturb a terminal is not passed on") {
  CHECK(printable("\x1b[31mred\x07") == "\\x1b[31mred\\x07");
  CHECK(printable("a\xff"
                  "b") == "a?b");
  CHECK(printable(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(printable("grün\t✓") == "grün\t✓");
  CHECK(shorten("grün", 3) == "gr…");
}

TEST_CASE("ranks are named in ranges") {
  CHECK(rank_phrase({3}) == "rank 3");
  CHECK(rank_phrase({0, 1, 2, 5, 7, 8}) == "ranks 0-2, 5, 7-8");
}
