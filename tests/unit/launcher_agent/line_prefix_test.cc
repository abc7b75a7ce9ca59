#include "launcher/output/line_prefix.h"

#include "tests/support/catch.h"

using ddprun::launcher::with_prefix;

TEST_CASE("every line gets its prefix") {
  CHECK(with_prefix("one\ntwo\n", "[0] ", true) == "[0] one\n[0] two\n");
}

TEST_CASE("an empty line is a line") { CHECK(with_prefix("\n\n", "[0] ", true) == "[0] \n[0] \n"); }

TEST_CASE("the continuation of a line gets no second prefix") {
  CHECK(with_prefix("rest\nnext\n", "[0] ", false) == "rest\n[0] next\n");
}

TEST_CASE("a progress bar keeps its prefix each time it begins anew") {
  CHECK(with_prefix("10%\r20%\r", "[0] ", true) == "[0] 10%\r[0] 20%\r");
}

TEST_CASE("a Windows line end is no progress bar") {
  CHECK(with_prefix("a\r\nb\r\n", "[0] ", true) == "[0] a\r\n[0] b\r\n");
}
