#include "launcher/process/process_table.h"

#include "tests/support/catch.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <thread>

using namespace ddprun::launcher;
using namespace std::string_view_literals;

TEST_CASE("a process's name may hold anything") {
  const auto process = parse_stat("4711 (a) R 1 (b) S 17 4711 4700 0 -1 4194560 1 2");
  REQUIRE(process.has_value());
  CHECK(process->pid == 4711);
  CHECK(process->command == "a) R 1 (b");
  CHECK(process->state == 'S');
  CHECK(process->parent == 17);
  CHECK(process->group == 4711);
  CHECK(process->session == 4700);
  CHECK_FALSE(process->has_ended());
  CHECK(parse_stat("4711 (a) Z 17 4711 4700 0 -1 4194560 1 2")->has_ended());
}

TEST_CASE("of a session whose leader is gone those are asked whose parent is not in it") {
  const auto process = [](pid_t pid, pid_t parent, pid_t session, char state = 'S') {
    ProcessEntry entry;
    entry.pid = pid;
    entry.parent = parent;
    entry.session = session;
    entry.state = state;
    return entry;
  };
  // 11 has come to the launcher, 12 is its loader; 13's parent has begun a session of its own.
  const std::vector<ProcessEntry> left{process(1, 0, 1), process(11, 1, 10), process(12, 11, 10),
                                       process(13, 20, 10), process(20, 1, 20)};
  CHECK(heads_of_session(left, 10) == std::vector<pid_t>{11, 13});
  // 12's parent has ended, though nobody has reaped it.
  CHECK(heads_of_session({process(11, 1, 10, 'Z'), process(12, 11, 10)}, 10) == std::vector<pid_t>{12});
  CHECK(heads_of_session({process(11, 1, 10, 'Z'), process(12, 11, 10, 'X')}, 10).empty());
  CHECK(heads_of_session({process(10, 1, 10), process(11, 10, 10)}, 10).empty());
}

TEST_CASE("the start of a process is a moment of our clock") {
  const auto self = read_process(::getpid());
  REQUIRE(self.has_value());
  CHECK(self->started <= ddprun::BootClock::now());
  CHECK(self->started > ddprun::BootClock::now() - std::chrono::minutes(10));
  CHECK(self->started > read_process(1)->started);
}

TEST_CASE("a process that frees its memory is exiting, though it is no zombie yet") {
  CHECK(parse_stat("4711 (a) R 17 4711 4700 0 -1 4194564 1 2")->is_exiting);
  CHECK_FALSE(parse_stat("4711 (a) R 17 4711 4700 0 -1 4194560 1 2")->is_exiting);
}

TEST_CASE("a process is over from the moment that a signal without return has been sent to it") {
  for (const int signal : {SIGKILL, SIGTERM, SIGABRT}) {
    CAPTURE(signal);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      // What it takes time to free.
      constexpr std::size_t kBytes = std::size_t{256} << 20;
      void* const memory =
          ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
      const rlimit no_core{};
      ::setrlimit(RLIMIT_CORE, &no_core);
      std::signal(signal, SIG_DFL);
      ::raise(SIGSTOP);
      ::_exit(memory == MAP_FAILED ? 1 : 0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
    REQUIRE(WIFSTOPPED(status));
    CHECK(leaving(child) == Leaving::kNotYet);
    ::kill(child, signal);
    // One that stands still dies of SIGKILL alone.
    if (signal != SIGKILL) {
      CHECK(leaving(child) == Leaving::kNotYet);
      ::kill(child, SIGCONT);
      while (leaving(child) != Leaving::kOver) ::usleep(100);
    }
    CHECK(leaving(child) == Leaving::kOver);
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(leaving(child) == Leaving::kOver);
  }
}

TEST_CASE("a process whose first thread has ended is not over while others work") {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(pipe[1]);
    // Until the other end is closed.
    std::thread([fd = pipe[0]] {
      char byte = 0;
      static_cast<void>(!::read(fd, &byte, 1));
      ::_exit(0);
    }).detach();
    ::syscall(SYS_exit, 0);  // the thread alone
  }
  ::close(pipe[0]);
  while (!read_process(child)->has_ended()) ::usleep(100);
  CHECK(leaving(child) == Leaving::kNotYet);
  ::close(pipe[1]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(leaving(child) == Leaving::kOver);
}

TEST_CASE("what is no process is none") {
  CHECK_FALSE(parse_stat("").has_value());
  CHECK_FALSE(parse_stat("12 (half").has_value());
  CHECK_FALSE(parse_stat("12 (half) S").has_value());
}

TEST_CASE("a job's tag is found in an environment, alone or among those of nested jobs") {
  CHECK(environment_has_tag("A=1\0DDPRUN_JOB_TAG=ddprun-x\0B=2\0"sv, "ddprun-x"));
  CHECK(environment_has_tag("DDPRUN_JOB_TAG=ddprun-outer:ddprun-x\0"sv, "ddprun-x"));
  CHECK(environment_has_tag("DDPRUN_JOB_TAG=ddprun-x:ddprun-inner"sv, "ddprun-x"));
}

TEST_CASE("another job's tag is not ours") {
  CHECK_FALSE(environment_has_tag("DDPRUN_JOB_TAG=ddprun-xy\0"sv, "ddprun-x"));
  CHECK_FALSE(environment_has_tag("MY_DDPRUN_JOB_TAG=ddprun-x\0"sv, "ddprun-x"));
  CHECK_FALSE(environment_has_tag("DDPRUN_JOB_TAG=\0"sv, ""));
  CHECK_FALSE(environment_has_tag(""sv, "ddprun-x"));
}

TEST_CASE("this process is in the table, and in its parent's") {
  const auto self = read_process(::getpid());
  REQUIRE(self.has_value());
  CHECK(self->parent == ::getppid());
  const auto all = read_processes();
  CHECK(std::any_of(all.begin(), all.end(),
                    [](const ProcessEntry& process) { return process.pid == ::getpid(); }));
}

TEST_CASE("a process that calls itself something strange is named with what that is") {
  CHECK(name_of({.pid = 9, .command = "sleep"}) == "pid 9 (sleep)");
  CHECK(name_of({.pid = 9, .command = "a\x1b]\u202e)"}) == "pid 9 (a\\x1b]\\u202e))");
}
