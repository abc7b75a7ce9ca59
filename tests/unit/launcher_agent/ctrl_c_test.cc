#include "launcher/process/ctrl_c.h"

#include "tests/support/catch.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <utility>

using namespace ddprun::launcher;

namespace {

/// A child that is in the call until it is told to end; it has one of its own.
class Waiting {
 public:
  explicit Waiting(const std::function<void(pid_t child, int readable)>& call) {
    std::array<int, 2> pipe{}, silent{};
    REQUIRE(::pipe(pipe.data()) == 0);
    REQUIRE(::pipe(silent.data()) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::pause();
        ::_exit(0);
      }
      static_cast<void>(::write(pipe[1], &child, sizeof child));
      call(child, silent[0]);
      ::_exit(0);
    }
    REQUIRE(::read(pipe[0], &child_, sizeof child_) == sizeof child_);
    for (const int end : {pipe[0], pipe[1], silent[0], silent[1]}) ::close(end);
    while (read_process(pid_)->state == 'R') ::usleep(100);
  }
  ~Waiting() {
    ::kill(child_, SIGKILL);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  [[nodiscard]] bool is_for_a_child() const { return waits_for_a_child(pid_); }

 private:
  pid_t pid_ = 0, child_ = 0;
};

ProcessEntry process(pid_t pid, pid_t parent, pid_t session) {
  ProcessEntry entry;
  entry.pid = pid;
  entry.parent = parent;
  entry.session = entry.group = session;
  entry.state = 'S';
  return entry;
}

std::vector<pid_t> pids(const std::vector<ProcessEntry>& processes) {
  std::vector<pid_t> numbers;
  for (const ProcessEntry& process : processes) numbers.push_back(process.pid);
  return numbers;
}

}  // namespace

TEST_CASE(
    "who waits for the end of a child does not wait for descriptors, and who waits for these not for a "
    "child") {
  CHECK(Waiting([](pid_t child, int) { ::waitpid(child, nullptr, 0); }).is_for_a_child());
  CHECK(Waiting([](pid_t, int) { ::wait(nullptr); }).is_for_a_child());
  CHECK(Waiting([](pid_t, int) {
          siginfo_t info{};
          ::waitid(P_ALL, 0, &info, WEXITED);
        }).is_for_a_child());
  CHECK_FALSE(Waiting([](pid_t, int readable) {
                pollfd descriptor{readable, POLLIN, 0};
                ::poll(&descriptor, 1, -1);
              }).is_for_a_child());
  CHECK_FALSE(Waiting([](pid_t, int readable) {
                char byte = 0;
                static_cast<void>(!::read(readable, &byte, 1));
              }).is_for_a_child());
  CHECK_FALSE(Waiting([](pid_t, int) { ::pause(); }).is_for_a_child());
}

TEST_CASE(
    "of what is in the leader's session programs hear Ctrl-C, and copies are spared with all that is below") {
  // No such processes are there: nothing is known of them but what stands here.
  constexpr pid_t kLeader = 1 << 30;
  ProcessEntry copy = process(kLeader + 3, kLeader, kLeader);
  copy.is_copy = true;
  ProcessEntry apart = process(kLeader + 7, kLeader, kLeader);
  apart.group = apart.pid;
  const std::vector<ProcessEntry> all{process(kLeader, 1, kLeader),
                                      process(kLeader + 1, kLeader, kLeader),
                                      process(kLeader + 2, kLeader + 1, kLeader),
                                      copy,
                                      process(kLeader + 4, copy.pid, kLeader),
                                      process(kLeader + 5, kLeader, kLeader + 5),
                                      process(kLeader + 6, 1, kLeader),
                                      apart};
  const CtrlC ctrl_c = ctrl_c_behind(all, kLeader, SIGINT, true);
  CHECK(pids(ctrl_c.hears) == std::vector<pid_t>{kLeader + 1, kLeader + 2});
  CHECK(ctrl_c.spares);
  const CtrlC later = ctrl_c_behind(all, kLeader, SIGINT, false);
  CHECK(pids(later.hears) == std::vector<pid_t>{kLeader + 1, copy.pid, kLeader + 2, kLeader + 4});
  CHECK_FALSE(later.spares);
}

TEST_CASE("a process is a copy until it begins a program of its own") {
  CHECK_FALSE(read_process(::getpid())->is_copy);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::raise(SIGSTOP);
    ::execlp("sleep", "sleep", "100", nullptr);
    ::_exit(1);
  }
  REQUIRE(::waitpid(child, nullptr, WUNTRACED) == child);
  CHECK(read_process(child)->is_copy);
  ::kill(child, SIGCONT);
  while (read_process(child)->is_copy && !read_process(child)->has_ended()) ::usleep(100);
  CHECK_FALSE(read_process(child)->is_copy);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}
