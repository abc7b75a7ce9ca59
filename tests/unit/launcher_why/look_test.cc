#include "launcher/why/look/look.h"

#include "launcher/why/look/native_stack.h"
#include "launcher/why/look/proc_look.h"
#include "launcher/why/look/rank_record.h"
#include "launcher/why/look/settle.h"
#include "launcher/why/look/work_process.h"
#include "tests/support/catch.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

using ddprun::launcher::PublishedJob;
using namespace ddprun::launcher::why;

namespace {

/// Does nothing, until the other end is closed.
void idle(int end) {
  char byte = 0;
  while (::read(end, &byte, 1) > 0) {
  }
}

/// Asks and sleeps by turns, as await_keys() does of a store that is slow: a stop would end the asking.
void ask_and_sleep(int) {
  std::array<int, 2> ends{-1, -1};
  constexpr timeval kAsk{0, 40'000};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) return;
  ::setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &kAsk, sizeof kAsk);
  char byte = 0;
  // EINTR: between the moment at which it was seen to sleep and that of the stop it may have begun to ask.
  while (::recv(ends[0], &byte, 1, 0) < 0 && (errno == EAGAIN || errno == EINTR)) ::usleep(10'000);
}

/// A process that does this, until it is killed.
class Idler {
 public:
  explicit Idler(void (*work)(int) = idle) {
    std::array<int, 2> ends{-1, -1};
    REQUIRE(::pipe(ends.data()) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[1]);
      work(ends[0]);
      ::_exit(0);
    }
    ::close(ends[0]);
    out_ = ends[1];
  }
  ~Idler() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(out_);
  }
  Idler(const Idler&) = delete;
  Idler& operator=(const Idler&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  int out_ = -1;
};

RankFacts look_once(const RankTarget& target) {
  return look_at_ranks({target}, {.between = std::chrono::milliseconds(1)}).at(0);
}

}  // namespace

TEST_CASE("a process that has the number of one that is meant, and is another, is not looked at") {
  const Idler idler;
  const std::uint64_t started = start_of(idler.pid());
  CHECK(look_once({.pid = idler.pid(), .started = started}).pid == idler.pid());
  CHECK(look_once({.pid = idler.pid(), .started = started + 1}).pid == 0);
}

TEST_CASE("a process that was started at another time is not stopped") {
  const Idler idler;
  ProcessLook look = look_at_process(idler.pid());
  REQUIRE_FALSE(look.threads.empty());  // ThreadSanitizer has one of its own
  ++look.started;
  CHECK(native_stacks(idler.pid(), look).threads.empty());
}

TEST_CASE("a process that bears a stop only now and then is stopped at such a moment, and goes on") {
  const Idler asker(ask_and_sleep);
  for (int look = 0; look < 10; ++look) {
    const NativeStacks stacks = native_stacks(asker.pid(), look_at_process(asker.pid()));
    if (stacks.problem.starts_with("native stacks need libdw")) {
      WARN("not tried: " << stacks.problem);
      return;
    }
    INFO(stacks.problem);
    REQUIRE_FALSE(stacks.threads.empty());
    CHECK_FALSE(stacks.threads.front().functions.empty());
  }
  int status = 0;
  CHECK(::waitpid(asker.pid(), &status, WNOHANG) == 0);
}

TEST_CASE("of a script's processes the one with libtorch does the work, the nearest and then the oldest") {
  const std::vector<WorkCandidate> processes{{.pid = 1, .only_starts = true},
                                             {.pid = 2, .parent = 1, .started = 20},
                                             {.pid = 3, .parent = 2, .started = 30, .has_torch = true},
                                             {.pid = 4, .parent = 2, .started = 25, .has_torch = true},
                                             {.pid = 5, .parent = 4, .started = 40, .has_torch = true}};
  CHECK(choose_work_process(1, processes) == 4);
}

TEST_CASE(
    "a worker that has recorded nothing gives way to the nearest below it that has, the oldest of several") {
  std::vector<WorkCandidate> processes{
      {.pid = 1, .has_torch = true},
      {.pid = 2, .parent = 1, .started = 10, .has_torch = true},
      {.pid = 3, .parent = 1, .started = 30, .has_torch = true, .records = true},
      {.pid = 4, .parent = 1, .started = 20, .has_torch = true, .records = true},
      {.pid = 5, .parent = 2, .started = 15, .has_torch = true, .records = true}};
  CHECK(choose_work_process(1, processes) == 4);
  processes.erase(processes.begin() + 2, processes.begin() + 4);
  CHECK(choose_work_process(1, processes) == 5);
  processes[2].records = false;
  CHECK(choose_work_process(1, processes) == 1);
  processes[2].records = processes[0].records = true;
  CHECK(choose_work_process(1, processes) == 1);
}

TEST_CASE("without libtorch a shell's only child does the work, and a program does its own") {
  std::vector<WorkCandidate> processes{{.pid = 1, .only_starts = true},
                                       {.pid = 2, .parent = 1, .only_starts = true},
                                       {.pid = 3, .parent = 2},
                                       {.pid = 4, .parent = 3}};
  CHECK(choose_work_process(1, processes) == 3);
  processes[0].only_starts = false;
  CHECK(choose_work_process(1, processes) == 1);
  processes[0].only_starts = true;
  processes.push_back({.pid = 5, .parent = 1});
  CHECK(choose_work_process(1, processes) == 1);
}

TEST_CASE("a picture begins with what the launcher publishes, and has a target for each rank here") {
  const Idler idler;
  PublishedJob state{.tag = "j1", .phase = "running", .world_size = 6, .restart_count = 2, .base_rank = 3};
  state.workers = {0, idler.pid()};
  const JobPicture picture = picture_of(state, 4711, "ddprun train.py");
  CHECK(picture.launcher == 4711);
  CHECK(picture.command == "ddprun train.py");
  CHECK(picture.generation == 2);
  CHECK(picture.world_size == 6);
  const std::vector<RankTarget> targets = targets_of(state);
  REQUIRE(targets.size() == 2);
  CHECK(targets[0].pid == 0);
  CHECK(targets[1].rank == 4);
  CHECK(targets[1].local_rank == 1);
  CHECK(targets[1].pid == idler.pid());
  CHECK(targets[1].started == start_of(idler.pid()));
  state.world_size = 0;
  CHECK(targets_of(state).empty());
}

TEST_CASE("what the launcher says after the looks decides how a rank ended") {
  JobPicture picture;
  picture.ranks.resize(2);
  picture.ranks[0].pid = 7;
  picture.ranks[1].local_rank = 1;
  PublishedJob state{.phase = "running", .workers = {7, 0}};
  settle(picture, state);
  CHECK(picture.ranks[1].ended_with_0);
  CHECK_FALSE(picture.ranks[0].ended_with_0);
  state.phase = "waiting";
  settle(picture, state);
  CHECK(picture.ranks[1].ended_with_0);
  state.phase = "stopping";
  settle(picture, state);
  CHECK_FALSE(picture.ranks[1].ended_with_0);
  CHECK(picture.phase == "stopping");
  state = {.phase = "running", .restart_count = 1, .workers = {7, 8}};
  settle(picture, state);
  CHECK(picture.phase == "restarting");
}

TEST_CASE("an old collective of one recorder is not told as the one before the newest of another") {
  const auto entry = [](const std::string& backend, std::int64_t created_ns, bool is_over) {
    return Collective{.backend = backend, .sequence = 1, .created_ns = created_ns, .is_over = is_over};
  };
  const Recorder whole =
      merged({{.is_there = true, .next = 2, .entries = {entry("gloo", 5, true), entry("gloo", 7, false)}},
              {.is_there = true, .next = 900, .entries = {entry("nccl", 90, true), entry("nccl", 91, true)}},
              {.problem = "it cannot be read"}});
  CHECK(whole.is_there);
  CHECK(whole.problem == "it cannot be read");
  CHECK(whole.next == 902);
  REQUIRE(whole.entries.size() == 3);
  CHECK(whole.entries[0].created_ns == 7);  // nobody has left it
  CHECK(whole.entries[1].created_ns == 90);
}
