#include "launcher/cli/values.h"
#include "launcher/text/python_numbers.h"
#include "tests/support/catch.h"

#include <cmath>

using namespace ddprun;
using namespace ddprun::launcher;
using std::chrono::milliseconds;

TEST_CASE("durations are seconds or carry their unit") {
  CHECK(parse_duration("90").value() == milliseconds(90'000));
  CHECK(parse_duration("0.25").value() == milliseconds(250));
  CHECK(parse_duration(" +5e-2 ").value() == milliseconds(50));
  CHECK(parse_duration("500ms").value() == milliseconds(500));
  CHECK(parse_duration("1h30m").value() == milliseconds(5'400'000));
  CHECK(parse_duration("2d").value() == milliseconds(172'800'000));
  for (const char* wrong : {"", "-1", "1x", "s", "1.2.3", "1e400", "400d", "nan", "inf"})
    CHECK_FALSE(parse_duration(wrong).has_value());
}

TEST_CASE("integers are read as Python's int() reads them") {
  CHECK(python_int(" +1_000\t") == 1000);
  CHECK(python_int("-0") == 0);
  for (const char* wrong : {"", "+", "- 1", "1_", "_1", "1__0", "1.0", "1e3", "0x1", "99999999999999999999"})
    CHECK_FALSE(python_int(wrong).has_value());
}

TEST_CASE("numbers are read as Python's float() reads them") {
  CHECK(python_float("5e-2") == 0.05);
  CHECK(python_float("+1") == 1.0);
  CHECK(python_float(" 1_0.5_0E+1_0 ") == 10.5e10);
  CHECK(python_float(".5") == 0.5);
  CHECK(python_float("-5.") == -5.0);
  CHECK(std::isinf(python_float("inf").value()));
  CHECK(std::isinf(python_float("1e400").value()));
  CHECK(python_float("-Infinity").value() < 0);
  CHECK(std::isnan(python_float("NaN").value()));
  for (const char* wrong :
       {"", ".", "+", "e1", "1e", "1e+", "1_", "1._5", "1_.5", "0x1", "1 0", "in", "--1", "5s"}) {
    CAPTURE(wrong);
    CHECK_FALSE(python_float(wrong).has_value());
  }
}

TEST_CASE("a stream map covers all ranks or names them, with as many digits as they have") {
  CHECK(parse_stream_map("3").value().of(7) == StdStream::kBoth);
  const StreamMap map = parse_stream_map("0:1,12:2").value();
  CHECK(map.of(0) == StdStream::kOut);
  CHECK(map.of(12) == StdStream::kErr);
  CHECK(map.of(1) == StdStream::kNone);
  for (const char* wrong : {"", "4", "0:", "0:4", ":1", "0:1,", "a:1", "-1:1", "0-2:1"})
    CHECK_FALSE(parse_stream_map(wrong).has_value());
}

TEST_CASE("a doubled comma is a comma inside a word") {
  CHECK(parse_words("apple,orange") == std::vector<std::string>{"apple", "orange"});
  CHECK(parse_words("a,,b,c") == std::vector<std::string>{"a,b", "c"});
  CHECK(parse_words("").empty());
}

TEST_CASE("rendezvous options tolerate stray quotes and blanks") {
  const auto conf = parse_rdzv_conf(" join_timeout='60', is_host=\"1\" ").value();
  CHECK(conf.timing.join_timeout == std::chrono::seconds(60));
  CHECK(conf.is_host == true);
  CHECK(parse_rdzv_conf("").has_value());
  CHECK_FALSE(parse_rdzv_conf("=1").has_value());
  CHECK_FALSE(parse_rdzv_conf("join_timeout=").has_value());
}

TEST_CASE("a number of nodes may be a range") {
  CHECK(parse_node_range("3").value().highest == 3);
  CHECK(parse_node_range("2:5").value().lowest == 2);
  for (const char* wrong : {"", "0", "2:1", "1:2:3", "x", "1:"})
    CHECK_FALSE(parse_node_range(wrong).has_value());
}

TEST_CASE("exit codes that forbid a restart may be none") {
  CHECK(parse_exit_codes("93,94").value() == std::vector<int>{93, 94});
  CHECK(parse_exit_codes("").value().empty());
  CHECK_FALSE(parse_exit_codes("256").has_value());
}
