#include "launcher/output/tail_buffer.h"

#include "tests/support/catch.h"

#include <string>

using ddprun::launcher::TailBuffer;

TEST_CASE("a short stream is kept whole") {
  TailBuffer tail(32);
  tail.append("one\n");
  tail.append("two");
  CHECK(tail.tail() == "one\ntwo");
}

TEST_CASE("a long stream is cut at a line start") {
  TailBuffer tail(12);
  for (int i = 10; i < 90; ++i) tail.append("line " + std::to_string(i) + "\n");
  CHECK(tail.tail() == "line 89\n");
}

TEST_CASE("one huge piece is cut to the limit") {
  TailBuffer tail(8);
  tail.append(std::string(100, 'x') + "tail end");
  CHECK(tail.tail() == "tail end");
}
