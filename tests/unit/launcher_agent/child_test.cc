#include "launcher/process/child.h"

#include "tests/support/catch.h"
#include "tests/support/skip.h"

#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

using namespace ddprun::launcher;
using ddprun::ExitStatus;
using ddprun::testing::skipped;

namespace {

/// A shell that has run `script` to its end and was reaped.
std::unique_ptr<ChildProcess> ended_shell(boost::asio::io_context& io, const std::string& script) {
  SpawnRequest request;
  request.argv = {"/bin/sh", "-c", script};
  auto child = std::make_unique<ChildProcess>(io, spawn(request).value());
  child->watch([](ExitStatus) {});
  io.run();
  return child;
}

/// A process that sleeps; `number` is the one that it shall have, or 0. Negative: it cannot be had.
pid_t start_sleeper(pid_t number) {
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  if (number != 0) {
    arguments.set_tid = reinterpret_cast<std::uintptr_t>(&number);
    arguments.set_tid_size = 1;
  }
  const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
  if (pid != 0) return pid;
  for (;;) ::pause();
}

void kill_and_reap(pid_t pid) {
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

}  // namespace

TEST_CASE(
    "a child that a debugger holds after its end is waited for in peace, and reaped when it is let go") {
  boost::asio::io_context io;
  SpawnRequest request;
  request.argv = {"/bin/sleep", "1000"};
  ChildProcess child(io, spawn(request).value());
  std::optional<ExitStatus> status;
  child.watch([&](ExitStatus ended) { status = ended; });
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t debugger = ::fork();
  if (debugger == 0) {
    const bool is_held = ::ptrace(PTRACE_SEIZE, child.pid(), nullptr, nullptr) == 0;
    if (::write(ready[1], is_held ? "y" : "n", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char is_held = 0;
  REQUIRE(::read(ready[0], &is_held, 1) == 1);
  ::close(ready[0]);
  ::close(ready[1]);
  if (is_held == 'y') {
    ::kill(child.pid(), SIGKILL);
    CHECK(io.run_for(std::chrono::milliseconds(300)) < 20);
    CHECK_FALSE(status);
    kill_and_reap(debugger);
    io.run();
    REQUIRE(status);
    CHECK(status->signal() == SIGKILL);
  } else {
    kill_and_reap(debugger);
    skipped("this kernel lets nobody trace a process of its own user");
  }
}

TEST_CASE("what is left of a child's group is found and signalled") {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  boost::asio::io_context io;
  const auto child = ended_shell(io, "sleep 1000 &");
  REQUIRE_FALSE(child->is_running());
  CHECK(child->left_group());
  CHECK(child->signal_group(SIGKILL));
  int status = 0;
  CHECK(::waitpid(-child->pid(), &status, 0) > 0);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
  CHECK_FALSE(child->left_group());
  CHECK_FALSE(child->signal_group(SIGKILL));
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_CASE("a group of strangers that has got the number of a child's is not signalled") {
  boost::asio::io_context io;
  const auto child = ended_shell(io, "exit 0");
  const pid_t leader = start_sleeper(child->pid());
  if (leader < 0)
    return skipped(std::string("cannot choose the number of a process: ") + std::strerror(errno));
  const pid_t member = start_sleeper(0);
  CHECK(::setpgid(leader, leader) == 0);
  CHECK(::setpgid(member, leader) == 0);
  SECTION("led by a process of that number") {
    CHECK_FALSE(child->signal_group(SIGKILL));
    CHECK(::waitpid(leader, nullptr, WNOHANG) == 0);
    kill_and_reap(leader);
  }
  SECTION("whose leader is gone") {
    kill_and_reap(leader);
    CHECK_FALSE(child->left_group());
    CHECK_FALSE(child->signal_group(SIGKILL));
  }
  CHECK(::waitpid(member, nullptr, WNOHANG) == 0);
  kill_and_reap(member);
}
