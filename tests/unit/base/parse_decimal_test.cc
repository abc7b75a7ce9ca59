#include "rendezvous/base/parse_decimal.h"

#include "tests/support/catch.h"

#include <cmath>
#include <limits>
#include <string_view>

using namespace ddprun;

TEST_CASE("a decimal number is read whole") {
  CHECK(parse_decimal("0") == 0.0);
  CHECK(parse_decimal("-1.5") == -1.5);
  CHECK(parse_decimal("2e-3") == 2e-3);
  CHECK(parse_decimal("2.E+3") == 2000.0);
  CHECK(parse_decimal("-.5") == -0.5);
  CHECK(parse_decimal("0.1") == 0.1);
  CHECK(parse_decimal("9007199254740993") == 9007199254740992.0);
  CHECK(parse_decimal("-inf") == -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(parse_decimal("NaN").value_or(0)));
}

TEST_CASE("what a double cannot hold is infinite, or 0") {
  CHECK(parse_decimal("1e400") == std::numeric_limits<double>::infinity());
  CHECK(parse_decimal("-1e400") == -std::numeric_limits<double>::infinity());
  CHECK(parse_decimal("1e-400") == 0.0);
  CHECK(parse_decimal("5e-324") == std::numeric_limits<double>::denorm_min());
}

TEST_CASE("what is no decimal number, or more than one, is none") {
  for (const std::string_view text : {"", " 1", "1 ", "+1", "--1", "-+1", "- 1", ".", "-", "1,5", "1.5.0",
                                      "1e", "0x10", "-0X10", "1f", "in", "nano", "one"}) {
    INFO(text);
    CHECK_FALSE(parse_decimal(text));
  }
  CHECK_FALSE(parse_decimal(std::string_view("1\0", 2)));
  CHECK(parse_decimal(std::string_view("123", 2)) == 12.0);
}
