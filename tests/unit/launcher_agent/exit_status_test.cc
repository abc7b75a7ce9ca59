#include "rendezvous/base/exit_status.h"

#include "tests/support/catch.h"

#include <sys/wait.h>

#include <csignal>

using namespace ddprun;

TEST_CASE("an exit status speaks in one sentence") {
  CHECK(to_string(ExitStatus::exited(0)) == "exited with code 0");
  CHECK(to_string(ExitStatus::exited(3)) == "exited with code 3");
  CHECK(to_string(ExitStatus::killed(SIGKILL)) == "was killed by SIGKILL");
  CHECK(to_string(ExitStatus::killed(SIGSEGV, true)) == "was killed by SIGSEGV (core dumped)");
  CHECK(to_string(ExitStatus::killed(SIGRTMIN + 3)) == "was killed by signal 37");
}

TEST_CASE("the launcher's exit code for a killed worker is 128 plus the signal") {
  CHECK(ExitStatus::exited(7).exit_code() == 7);
  CHECK(ExitStatus::killed(SIGTERM).exit_code() == 143);
}

TEST_CASE("waitid's answer becomes a value") {
  CHECK(ExitStatus::from_waitid(CLD_EXITED, 4) == ExitStatus::exited(4));
  CHECK(ExitStatus::from_waitid(CLD_KILLED, SIGINT) == ExitStatus::killed(SIGINT));
  CHECK(ExitStatus::from_waitid(CLD_DUMPED, SIGABRT) == ExitStatus::killed(SIGABRT, true));
}
