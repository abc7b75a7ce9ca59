#include "launcher/process/run_program.h"

#include "tests/support/catch.h"

#include <cerrno>
#include <chrono>

using namespace ddprun::launcher;
using namespace std::chrono_literals;

TEST_CASE("a program that closes its streams and goes on is killed at the limit") {
  const auto begun = std::chrono::steady_clock::now();
  const ProgramOutput output = run_program({"/bin/sh", "-c", "echo said; exec sleep 30 >&- 2>&-"}, 300ms);
  CHECK(std::chrono::steady_clock::now() - begun < 10s);
  CHECK_FALSE(output.has_ended);
  CHECK(output.code == -1);
  CHECK(output.out == "said\n");
}

TEST_CASE("a program that has ended gives its words and its exit code") {
  const ProgramOutput output = run_program({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, 30s);
  CHECK(output.refused == 0);
  CHECK(output.has_ended);
  CHECK(output.code == 3);
  CHECK(output.out == "out\n");
  CHECK(output.err == "err\n");
}

TEST_CASE("a program that a signal has killed has ended without an exit code") {
  const ProgramOutput output = run_program({"/bin/sh", "-c", "kill -KILL $$"}, 30s);
  CHECK(output.has_ended);
  CHECK(output.code == -1);
}

TEST_CASE("a program that is not there is refused with errno") {
  const ProgramOutput output = run_program({"/no/such/program"}, 30s);
  CHECK(output.refused == ENOENT);
  CHECK_FALSE(output.has_ended);
}
