#include "launcher/cleanup/leftovers.h"

#include "tests/support/catch.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

/// A child that does not end on SIGTERM.
pid_t start_deaf_child() {
  std::signal(SIGTERM, SIG_IGN);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  std::signal(SIGTERM, SIG_DFL);
  return pid;
}

}  // namespace

TEST_CASE("who was asked to end before this process stood still gets SIGKILL after it, and is no survivor") {
  const pid_t child = start_deaf_child();
  boost::asio::io_context io;
  LeftoverSweep sweep(io);
  std::optional<Leftovers> done;
  sweep.start(
      SweepMode::kAskFirst,
      [child](const ProcessEntry& process) { return process.pid == child && !process.has_ended(); },
      [&](Leftovers leftovers) { done = std::move(leftovers); });
  std::this_thread::sleep_for(3200ms);  // what SIGSTOP does to it, or a suspended machine
  io.run();
  ::kill(child, SIGKILL);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(done);
  CHECK(done->surviving.empty());
  CHECK(done->ended.size() == 1);
}
