#include "rendezvous/base/exit_codes.h"
#include "tests/support/catch.h"
#include <ddprun/drain.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <exception>
#include <functional>
#include <thread>

using namespace std::chrono_literals;
using ddprun::Drain;

namespace {

constexpr std::chrono::milliseconds kLong = 60s;

/// How long a process lives that does `work` and then waits for what ends it: its Drain, after SIGTERM.
std::chrono::milliseconds life_of(std::chrono::milliseconds unfinished,
                                  const std::function<void(Drain&)>& work) {
  const auto begin = std::chrono::steady_clock::now();
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(90);
    try {
      Drain drain({.patience = 50ms, .unfinished = unfinished});
      work(drain);
      while (true) ::pause();
    } catch (const std::exception&) {
      ::_exit(1);
    }
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == ddprun::exit_code::kSignalBase + SIGTERM);
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
}

}  // namespace

TEST_CASE("a process with something unsaved waits after SIGTERM for its first steps, and not for ever") {
  CHECK(life_of(kLong, [](Drain& /*drain*/) { ::raise(SIGTERM); }) < 20s);
  const auto life = life_of(500ms, [](Drain& drain) {
    drain.has_unsaved(true);
    ::raise(SIGTERM);
  });
  CHECK(life >= 500ms);
  CHECK(life < 15s);
}

TEST_CASE("what has come to have nothing unsaved ends at once, if SIGTERM came before") {
  const auto life = life_of(kLong, [](Drain& drain) {
    drain.has_unsaved(true);
    ::raise(SIGTERM);
    std::this_thread::sleep_for(500ms);  // in which it is held
    drain.has_unsaved(false);
  });
  CHECK(life >= 500ms);
  CHECK(life < 20s);
}

TEST_CASE("a start that took long is no step that did") {
  CHECK(life_of(kLong, [](Drain& drain) {
          drain.has_unsaved(true);
          std::this_thread::sleep_for(5s);  // five times as long would be 25
          drain.progress();
          drain.has_unsaved(false);
          ::raise(SIGTERM);
        }) < 20s);
}
