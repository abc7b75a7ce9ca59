#include "launcher/cleanup/job_sweep.h"

#include "tests/support/catch.h"
#include "tests/support/skip.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

using namespace ddprun::launcher;
using namespace std::chrono_literals;
using ddprun::testing::skipped;

namespace {

/// A process that sleeps; destroyed, it is killed and reaped.
class Sleeper {
 public:
  enum class Session { kOurs, kOwn };

  explicit Sleeper(Session session = Session::kOurs) : Sleeper(0, session) {}
  /// With a number of choice; pid() is negative where that cannot be had, and errno says why.
  explicit Sleeper(pid_t number, Session session) {
    std::array<int, 2> ready{};
    REQUIRE(::pipe(ready.data()) == 0);
    clone_args arguments{};
    arguments.exit_signal = SIGCHLD;
    if (number != 0) {
      arguments.set_tid = reinterpret_cast<std::uintptr_t>(&number);
      arguments.set_tid_size = 1;
    }
    pid_ = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
    if (pid_ == 0) {
      if (session == Session::kOwn) ::setsid();
      [[maybe_unused]] const ssize_t written = ::write(ready[1], "x", 1);
      for (;;) ::pause();
    }
    const int problem = errno;
    ::close(ready[1]);
    char letter = 0;
    if (pid_ > 0) CHECK(::read(ready[0], &letter, 1) == 1);
    ::close(ready[0]);
    errno = problem;
  }
  ~Sleeper() { end(); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] ProcessEntry entry() const { return read_process(pid_).value(); }
  /// Kills and reaps it: its number is free then.
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  [[nodiscard]] bool is_alive() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }
  /// Waits until it has died, of SIGKILL.
  [[nodiscard]] bool was_killed() {
    int status = 0;
    const bool is_reaped = ::waitpid(pid_, &status, 0) == pid_;
    pid_ = -1;
    return is_reaped && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }

 private:
  pid_t pid_ = -1;
};

/// A program with an environment and limits of file locks of its own.
class Program {
 public:
  Program(std::string variable, rlim_t soft, rlim_t hard) {
    std::array<int, 2> ready{};
    REQUIRE(::pipe2(ready.data(), O_CLOEXEC) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const rlimit limit{soft, hard};
      ::setrlimit(RLIMIT_LOCKS, &limit);
      std::array<const char*, 3> words{"sleep", "1000", nullptr};
      std::array<char*, 2> environment{variable.data(), nullptr};
      ::execve("/bin/sleep", const_cast<char**>(words.data()), environment.data());
      ::_exit(127);
    }
    ::close(ready[1]);
    char letter = 0;
    CHECK(::read(ready[0], &letter, 1) == 0);  // its end is closed by execve
    ::close(ready[0]);
  }
  ~Program() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] ProcessEntry entry() const { return read_process(pid_).value(); }
  [[nodiscard]] bool is_alive() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }
  /// Waits until it has died, of SIGKILL.
  [[nodiscard]] bool was_killed() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }

 private:
  pid_t pid_ = -1;
};

constexpr rlim_t kOurs = (rlim_t{1} << 47) + 4711;

}  // namespace

TEST_CASE("what was found to be of the job is killed if it still is that process") {
  Sleeper worker(Sleeper::Session::kOwn);
  JobMarks marks;
  marks.tag = "ddprun-of-nobody";
  marks.sessions[worker.pid()] = ddprun::TimePoint::max();
  const ProcessEntry found = worker.entry();

  SECTION("it is") {
    CHECK(kill_found(found, marks));
    CHECK(worker.was_killed());
  }
  SECTION("it has become another of the job, which nobody has found") {
    ProcessEntry before = found;
    before.started -= 1s;
    CHECK_FALSE(kill_found(before, marks));
    CHECK(worker.is_alive());
  }
  SECTION("it has no mark of the job any more") {
    marks.sessions = {};
    CHECK_FALSE(kill_found(found, marks));
    CHECK(worker.is_alive());
  }
  SECTION("it has ended") {
    worker.end();
    CHECK_FALSE(kill_found(found, marks));
  }
}

TEST_CASE("a number that a stranger gets between the look and the signal does not bring him the signal") {
  Sleeper meant;
  const pid_t number = meant.pid();
  std::optional<Sleeper> stranger;
  int problem = 0;
  const bool is_sent = signal_process(number, SIGKILL, [&](const ProcessEntry& process) {
    CHECK(process.pid == number);
    meant.end();
    stranger.emplace(number, Sleeper::Session::kOurs);
    problem = errno;
    return true;
  });
  if (stranger->pid() < 0)
    return skipped(std::string("cannot choose the number of a process: ") + std::strerror(problem));
  CHECK(stranger->pid() == number);
  CHECK_FALSE(is_sent);
  CHECK(stranger->is_alive());
}

TEST_CASE("who has only a copy of a worker's environment is a stranger, unless workers have no better mark") {
  JobMarks marks;
  marks.tag = "ddprun-of-this-test";
  marks.lock_limit = rlimit{kOurs, kOurs};
  Program worker("DDPRUN_JOB_TAG=ddprun-of-this-test", kOurs, kOurs);
  Program submitted("DDPRUN_JOB_TAG=ddprun-of-this-test", RLIM_INFINITY, RLIM_INFINITY);
  CHECK(is_of_job(worker.entry(), marks));
  CHECK_FALSE(is_of_job(submitted.entry(), marks));
  kill_job(marks, {}, [] { return true; });
  CHECK(worker.was_killed());
  CHECK(submitted.is_alive());
  marks.lock_limit.reset();
  CHECK(is_of_job(submitted.entry(), marks));
}

TEST_CASE("a job inside a job inside this one has the mark of neither, and its tag counts") {
  constexpr rlim_t kOutermost = kOurs + 3;
  constexpr rlim_t kInnermost = kOurs - 5;
  JobMarks marks;
  marks.tag = "ddprun-of-this-test";
  marks.lock_limit = rlimit{kOurs, kOutermost};
  const Program inside("DDPRUN_JOB_TAG=ddprun-a:ddprun-of-this-test:ddprun-c", kInnermost, kOutermost);
  const Program of_another("DDPRUN_JOB_TAG=ddprun-a:ddprun-b:ddprun-c", kInnermost, kOutermost);
  const Program submitted("DDPRUN_JOB_TAG=ddprun-a:ddprun-of-this-test", kOutermost, kOutermost);
  CHECK(is_of_job(inside.entry(), marks));
  CHECK_FALSE(is_of_job(of_another.entry(), marks));
  CHECK_FALSE(is_of_job(submitted.entry(), marks));
}

TEST_CASE("a session counts by whom its number belonged to when a worker certainly held it") {
  const ddprun::TimePoint as_of(100s);
  const auto born = [](std::chrono::seconds at) {
    ProcessEntry process;
    process.pid = 12;
    process.session = 10;
    process.started = ddprun::TimePoint(at);
    return process;
  };
  JobMarks marks;
  marks.sessions = {{10, as_of}};
  marks.lock_limit = rlimit{4711, 4711};
  CHECK(is_in_session(born(101s), born(99s), marks));
  CHECK_FALSE(is_in_session(born(102s), born(101s), marks));  // a stranger leads it
  CHECK(is_in_session(born(99s), std::nullopt, marks));
  CHECK_FALSE(is_in_session(born(101s), std::nullopt, marks));  // a stranger may have led it
  marks.lock_limit.reset();
  CHECK(is_in_session(born(101s), std::nullopt, marks));  // no better mark
  marks.sessions = {{11, as_of}};
  CHECK_FALSE(is_in_session(born(99s), born(99s), marks));
}
