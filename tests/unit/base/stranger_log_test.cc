#include "rendezvous/base/stranger_log.h"

#include "rendezvous/base/printable.h"
#include "tests/support/catch.h"

#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <sstream>
#include <string>

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

struct World {
  std::ostringstream out;
  Logger logger{"test", std::make_shared<spdlog::sinks::ostream_sink_st>(out)};

  World() { logger.set_pattern("%v"); }
  [[nodiscard]] auto lines() const {
    const std::string text = out.str();
    return std::count(text.begin(), text.end(), '\n');
  }
};

}  // namespace

TEST_CASE("printable: what a terminal would act on is written out, the rest stays") {
  CHECK(printable("node \xc3\xa4 (10.0.0.1)", 100) == "node \xc3\xa4 (10.0.0.1)");
  CHECK(printable("a\nb\x1b[2J\x7f\r", 100) == "a\\x0ab\\x1b[2J\\x7f\\x0d");
  CHECK(printable("\xc2\x9b"
                  "31m",
                  100) == "\\x9b31m");
  CHECK(printable("\xe2\x80\xae"
                  "gpj",
                  100) == "\\u202egpj");
  CHECK(printable("a\u200bb\u200f\u2066\ufeff\u00adc\U000e0041", 100) ==
        "a\\u200bb\\u200f\\u2066\\ufeff\\xadc\\U000e0041");
  CHECK(printable(std::string_view("a\0b", 3), 100) == "a\\x00b");
  CHECK(printable("مرحبا 👍 é ✓", 100) == "مرحبا 👍 é ✓");
  CHECK(printable("a\xff\xc3", 100) == "a??");
  CHECK(printable("\xed\xa0\x80\xc0\x80", 100) == "?????");
}

TEST_CASE("printable: what is too long is cut at a character, and its own result is left as it is") {
  CHECK(printable("abcdef", 6) == "abcdef");
  CHECK(printable("abcdefg", 6) == "abc…");
  CHECK(printable("ab\x1b\x1b", 6) == "ab…");
  std::string text;
  for (int i = 0; i < 256; ++i) text += static_cast<char>(i);
  for (std::size_t longest = 4; longest < 600; ++longest) {
    const std::string once = printable(text, longest);
    CHECK(once.size() <= longest);
    CHECK(printable(once, longest) == once);
  }
}

TEST_CASE("stranger log: a line is one line, and not long, whatever it says") {
  World world;
  StrangerLog log(world.logger);
  log.warn({}, "refused 10.0.0.1: node a\n12:00:00 ddprun: all is well");
  CHECK(world.out.str() == "refused 10.0.0.1: node a\\x0a12:00:00 ddprun: all is well\n");
  log.warn({}, std::string(100'000, 'x'));
  CHECK(world.out.str().size() < 1000);
}

TEST_CASE("stranger log: of very many lines twenty are written in ten seconds, and the rest counted") {
  World world;
  const TimePoint start;
  {
    StrangerLog log(world.logger);
    for (int i = 0; i < 1000; ++i) log.warn(start + i * 1ms, "refused");
    CHECK(world.lines() == 20);
    log.warn(start + 11s, "refused again");
    CHECK_THAT(world.out.str(),
               Catch::Matchers::EndsWith("980 more lines about connections that were turned away are left "
                                         "out\nrefused again\n"));
    for (int i = 0; i < 25; ++i) log.warn(start + 12s, "refused");
  }
  CHECK_THAT(world.out.str(), Catch::Matchers::EndsWith(
                                  "6 more lines about connections that were turned away are left out\n"));
}
