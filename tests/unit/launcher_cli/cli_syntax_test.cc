#include "launcher/cli/syntax.h"
#include "tests/support/catch.h"

#include <array>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

constexpr std::array kTable{FlagSyntax{"redirects", 'r', "STREAMS", true},
                            FlagSyntax{"module", 'm', "", true},
                            FlagSyntax{"max-restarts", '\0', "N", true},
                            FlagSyntax{"max-restarts-window", '\0', "TIME"},
                            FlagSyntax{"prefix", '\0', ""},
                            FlagSyntax{"pair", '\0', "A B"}};

std::string first_use(const std::vector<std::string>& args) {
  const ParsedArgs parsed = split_args(kTable, args).value();
  std::string text(kTable[parsed.flags.at(0).flag].name);
  for (const std::string& value : parsed.flags[0].values) text += "=" + value;
  return text;
}

}  // namespace

TEST_CASE("a short flag takes its value attached, after an equals sign or as the next word") {
  CHECK(first_use({"-r3"}) == "redirects=3");
  CHECK(first_use({"-r=3"}) == "redirects=3");
  CHECK(first_use({"-r", "3"}) == "redirects=3");
}

TEST_CASE("short switches may be bundled before a flag with a value") {
  const std::vector<std::string> args{"-mr3", "x"};
  const ParsedArgs parsed = split_args(kTable, args).value();
  REQUIRE(parsed.flags.size() == 2);
  CHECK(parsed.flags[1].values == std::vector<std::string>{"3"});
  CHECK(parsed.rest == std::vector<std::string>{"x"});
}

TEST_CASE("an abbreviation that torchrun understands is not made ambiguous by a flag of ours") {
  CHECK(first_use({"--max-res", "1"}) == "max-restarts=1");
  CHECK(first_use({"--redirect=3"}) == "redirects=3");
  CHECK(first_use({"--pre"}) == "prefix");
}

TEST_CASE("a negative number and a word with a space that is no flag are values, as argparse has it") {
  CHECK(first_use({"--max-restarts", "-1"}) == "max-restarts=-1");
  CHECK(first_use({"--max-restarts", "-.5"}) == "max-restarts=-.5");
  CHECK(first_use({"--redirects", "-a b"}) == "redirects=-a b");
  for (const char* flag : {"-1.", "-1.2.3", "--prefix", "--max-restarts=a b", "-r 3", "--"}) {
    const std::vector<std::string> args{"--redirects", flag};
    CAPTURE(flag);
    CHECK_FALSE(split_args(kTable, args).has_value());
  }
  CHECK(first_use({"--redirects", "-"}) == "redirects=-");
}

TEST_CASE("a flag may take several words") {
  CHECK(first_use({"--pair", "1", "gdb"}) == "pair=1=gdb");
  const std::vector<std::string> args{"--pair", "1"};
  CHECK(split_args(kTable, args).error().message() == "--pair needs 2 values: --pair A B");
}

TEST_CASE("a value that an equals sign attaches may have spaces") {
  CHECK(first_use({"--redirects=a b"}) == "redirects=a b");
  CHECK(first_use({"--redir=a b"}) == "redirects=a b");
  CHECK(first_use({"-ra b"}) == "redirects=a b");
}

TEST_CASE("only the first double dash is dropped, before the program or behind it") {
  const auto rest = [](const std::vector<std::string>& args) {
    return split_args(kTable, args).value().rest;
  };
  using Words = std::vector<std::string>;
  CHECK(rest({"--", "x", "--", "y"}) == Words{"x", "--", "y"});
  CHECK(rest({"x", "--", "--", "y"}) == Words{"x", "--", "y"});
  CHECK(rest({"x", "y", "--"}) == Words{"x", "y", "--"});
}
