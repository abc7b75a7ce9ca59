#include "worker/data/csv.h"

#include "tests/support/catch.h"

#include <string>
#include <vector>

using namespace ddprun::data;

namespace {

using Names = std::vector<std::string>;

std::string csv_refusal(const std::string& text) { return parse_csv(text, "x.csv").error().message(); }

}  // namespace

TEST_CASE("a CSV file gives names and numbers, row by row") {
  const auto csv = parse_csv("a, \"b\",c\r\n1,2.5,-3e1\r\n\n4,5,6\n", "x.csv");
  REQUIRE(csv.has_value());
  CHECK(csv->names == Names{"a", "b", "c"});
  CHECK(csv->numbers == std::vector<double>{1, 2.5, -30, 4, 5, 6});
  CHECK(csv->rows() == 2);
}

TEST_CASE(
    "a CSV file of Excel or pandas is read: a byte order mark, names with commas, signs, tiny numbers") {
  const auto csv = parse_csv("\xef\xbb\xbf\"name, unit\",b\r\n+3,\"1e-400\"\n", "x.csv");
  REQUIRE(csv.has_value());
  CHECK(csv->names == Names{"name, unit", "b"});
  CHECK(csv->numbers == std::vector<double>{3, 0});
  CHECK(csv_refusal("a,b\n1,1e400\n") == "x.csv, line 2, column b: expected a finite number, got \"1e400\"");
  for (const std::string cell : {"+-3", "+", "3+", "++3"})
    CHECK(csv_refusal("a,b\n1," + cell + "\n") ==
          "x.csv, line 2, column b: expected a number, got \"" + cell + "\"");
}

TEST_CASE("quotes in a name are doubled where it stands in quotes, and its own elsewhere") {
  const auto csv = parse_csv("\"a \"\"b\"\", c\",size 5\",\"\",\" d \", \"e\nf\n1,2,3,4,5\n", "x.csv");
  CHECK_FALSE(csv.has_value());  // the last one opens and does not close
  CHECK(parse_csv("\"a \"\"b\"\", c\",size 5\",\"\",\" d \"\n1,2,3,4\n", "x.csv")->names ==
        Names{"a \"b\", c", "size 5\"", "", " d "});
}

TEST_CASE("what a CSV file says is shown without its control characters, and in part where it is long") {
  CHECK(csv_refusal("a,\x1b[31mb\n1,\x1b]0;x\a\xff\n") ==
        "x.csv, line 2, column \\x1b[31mb: expected a number, got \"\\x1b]0;x\\x07?\"");
  CHECK(csv_refusal("a,b\n1," + std::string(1000, 'x') + "\n").size() < 150);
  CHECK(shown_names({"a", "b\x01"}) == "a, b\\x01");
  CHECK(shown_names(Names(31, "x")).ends_with("x, x, and 11 more"));
}

TEST_CASE("a CSV file that is wrong is refused with line and column") {
  CHECK(csv_refusal("a,b\n") == "x.csv has no rows: expected a line of names, and numbers below");
  CHECK(csv_refusal("a,b\n1,2\n3\n") == "x.csv, line 3: expected 2 numbers, one for each name, got 1");
  CHECK(csv_refusal("a,b\n1,x\n") == "x.csv, line 2, column b: expected a number, got \"x\"");
  CHECK(csv_refusal("a,b\n,1\n") == "x.csv, line 2, column a: expected a number, got \"\"");
  CHECK(csv_refusal("a,a,y\n1,2,3\n") == "x.csv has two columns \"a\"");
  CHECK(csv_refusal("1, 2.5,-3e1\n1,2,3\n") ==
        "x.csv begins with numbers, expected a name for each column; put a line of names above them (names "
        "that "
        "are numbers stand in quotes)");
  CHECK(parse_csv("0,1,2\n1,2,3\n", "x.csv")->names == Names{"0", "1", "2"});  // of pandas
  CHECK(parse_csv("2,1\n1,2\n", "x.csv", {"0", "1", "2"})->names == Names{"2", "1"});
  CHECK_FALSE(parse_csv("2,5\n1,2\n", "x.csv", {"0", "1", "2"}).has_value());
  CHECK(parse_csv("\"2019\",2020\n1,2\n", "x.csv")->names == Names{"2019", "2020"});
}

TEST_CASE("a cell of a CSV file that is no finite number is refused with line and column") {
  CHECK(csv_refusal("a,b\n1,2\nnan,4\n") == "x.csv, line 3, column a: expected a finite number, got \"nan\"");
  CHECK(csv_refusal("a,b\n1,-inf\n") == "x.csv, line 2, column b: expected a finite number, got \"-inf\"");
}

TEST_CASE("many names above short rows take no memory for numbers that are not there") {
  std::string text = "n0";
  for (int i = 1; i < 20000; ++i) text += ",n" + std::to_string(i);
  text += "\n";
  for (int row = 0; row < 100000; ++row) text += "1\n";
  CHECK(csv_refusal(text) == "x.csv, line 2: expected 20000 numbers, one for each name, got 1");
}
