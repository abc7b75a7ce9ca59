#include "launcher/process/run_program.h"

#include "tests/support/catch.h"
#include "tests/support/skip.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

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

TEST_CASE("a program that cannot begin is given up at the limit") {
  // A write lease keeps whoever wants to run the file waiting until its holder gives it up: 45 s, if it never does.
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("ddprun-leased-" + std::to_string(::getpid()));
  std::ofstream(path) << "#!/bin/sh\n";
  ::chmod(path.c_str(), 0700);
  std::array<int, 2> ready{};
  REQUIRE(::pipe(ready.data()) == 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::signal(SIGIO, SIG_IGN);
    const int file = ::open(path.c_str(), O_WRONLY);
    const char is_held = ::fcntl(file, F_SETLEASE, F_WRLCK) == 0 ? 'y' : 'n';
    (void)!::write(ready[1], &is_held, 1);
    for (;;) ::pause();
  }
  char is_held = 0;
  REQUIRE(::read(ready[0], &is_held, 1) == 1);
  if (is_held == 'y') {
    const auto begun = std::chrono::steady_clock::now();
    const ProgramOutput output = run_program({path.string()}, 300ms);
    CHECK(std::chrono::steady_clock::now() - begun < 10s);
    CHECK_FALSE(output.has_ended);
    CHECK(output.refused == 0);
  }
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  std::filesystem::remove(path);
  if (is_held != 'y') ddprun::testing::skipped("the file system of temporary files has no leases");
}

TEST_CASE("how a program ended is known where SIGCHLD was ignored") {
  std::signal(SIGCHLD, SIG_IGN);
  const ProgramOutput output = run_program({"/bin/sh", "-c", "exit 3"}, 30s);
  CHECK(output.has_ended);
  CHECK(output.code == 3);
}
