#include "launcher/shell_quote.h"

#include "tests/support/catch.h"

using namespace ddprun::launcher;

TEST_CASE("a command line is quoted only where a shell needs it") {
  CHECK(shell_quote(std::vector<std::string>{"python3", "-u", "a b.py", "--x=1", "", "it's"}) ==
        R"(python3 -u 'a b.py' --x=1 '' 'it'\''s')");
  CHECK(shell_quote("NAME=two words") == "NAME='two words'");
}
