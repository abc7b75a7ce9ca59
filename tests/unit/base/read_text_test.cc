#include "rendezvous/base/read_text.h"

#include "tests/support/catch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

using namespace ddprun;

TEST_CASE("a file of the kernel's is read whole, whatever size it tells") {
  CHECK(read_text("/proc/self/stat").rfind(std::to_string(::getpid()) + " (", 0) == 0);
}

TEST_CASE("what is no file, or cannot be read, is nothing, and no exception") {
  CHECK_FALSE(try_read_text("/nowhere/at/all"));
  CHECK_FALSE(try_read_text("/tmp"));
  CHECK(read_text("/tmp").empty());
}

// A zombie still has its folder in /proc, but reading some of its files fails, as it does in the moment in
// which a process ends.
TEST_CASE("a file of a process that has ended is nothing") {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK(read_text("/proc/" + std::to_string(child) + "/environ").empty());
  ::waitpid(child, nullptr, 0);
}
