#include "rendezvous/base/shell_quote.h"

#include "tests/support/catch.h"

using namespace ddprun;

TEST_CASE("a command line is quoted only where a shell needs it") {
  CHECK(shell_quote(std::vector<std::string>{"python3", "-u", "a b.py", "--x=1", "", "it's"}) ==
        R"(python3 -u 'a b.py' --x=1 '' 'it'\''s')");
  CHECK(shell_quote("NAME=two words") == "NAME='two words'");
}

TEST_CASE("a word that a terminal or a line would not bear is written out as a shell reads it") {
  CHECK(shell_quote("a\nb\tc.py") == R"($'a\nb\tc.py')");
  CHECK(shell_quote("it's\x1b[2J\\") == R"($'it\'s\x1b[2J\\')");
  CHECK(shell_quote("NAME=1\n2") == R"(NAME=$'1\n2')");
  CHECK(shell_quote("\xff") == R"($'\xff')");
  CHECK(shell_quote("\u202egnp.exe") == R"($'\xe2\x80\xaegnp.exe')");
  CHECK(shell_quote("grün") == "'grün'");
}
