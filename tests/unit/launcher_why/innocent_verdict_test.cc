#include "launcher/why/look/proc_look.h"
#include "launcher/why/look/thread_state.h"
#include "launcher/why/verdict/doing.h"
#include "launcher/why/verdict/verdict.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher_why/made_pictures.h"

#include <sys/syscall.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Ranks that look guilty and are not, and what is said of them.

using namespace ddprun::launcher::why;

namespace {

/// Rank 0 waits in the collective after `count` of them, which came every `distance_s`, and rank 1 does not.
struct Pair {
  RankFacts waits = rank_in(0, SYS_futex);
  RankFacts late;

  Pair(int call, double waited_s, double distance_s = 1, int count = 5) : late(rank_in(1, call)) {
    waits.native = {{.tid = waits.pid, .name = "python3", .functions = {"c10d::Work::wait"}}};
    for (int i = count; i > 0; --i) {
      enter(waits, "all_reduce", waited_s + distance_s * i, true);
      enter(late, "all_reduce", waited_s + distance_s * i, true);
    }
    enter(waits, "all_reduce", waited_s, false);
  }

  [[nodiscard]] Verdict judged() const { return judge(picture_of({waits, late})); }
  [[nodiscard]] Activity doing() const { return activity_of(late); }
  ThreadLook& first() { return late.first.threads.front(); }
  ThreadLook& second() { return late.second.threads.front(); }
};

}  // namespace

TEST_CASE("who runs under gdb or strace is held by it only while it is stopped") {
  Pair pair(SYS_read, 40);
  for (ProcessLook* const look : {&pair.late.first, &pair.late.second}) {
    look->tracer = 7;
    look->tracer_name = "strace";
  }
  CHECK(pair.doing().doing == Doing::kBlocked);
  RankFacts other = rank_in(2, SYS_futex);
  other.recorder = other.recorder_first = pair.waits.recorder;
  pair.late.recorder = pair.late.recorder_first = pair.waits.recorder;
  other.recorder.entries.pop_back();
  other.recorder_first = other.recorder;
  CHECK(judge(picture_of({pair.waits, pair.late, other})).guilty == std::vector<int>{2});
  pair.first().state = pair.second().state = "t";
  CHECK(pair.doing().doing == Doing::kTraced);
}

TEST_CASE("who writes or reads much by one call is late, and not stuck in it") {
  Pair pair(SYS_write, 90);
  pair.first().state = pair.second().state = "D";
  pair.first().switches = 7;
  pair.second().switches = 9;
  pair.late.object.path = "/nfs/checkpoint.pt";
  CHECK(pair.judged().health == Health::kStuck);
  pair.late.second.storage_written_bytes = pair.late.first.storage_written_bytes + (150 << 20);
  CHECK(pair.doing().doing == Doing::kMoves);
  CHECK(pair.doing().words.starts_with("writes ("));
  CHECK(pair.judged().health == Health::kLate);
  std::swap(pair.late.second.storage_written_bytes, pair.late.second.storage_read_bytes);
  CHECK(pair.doing().words.starts_with("reads ("));
  CHECK(gets_on(pair.late.first, pair.late.second));
  // A line of a log makes a page of its file a new one.
  pair.late.second.storage_read_bytes = pair.late.first.storage_read_bytes + 3 * 4096;
  CHECK_FALSE(gets_on(pair.late.first, pair.late.second));
  CHECK(pair.judged().health == Health::kStuck);
}

TEST_CASE(
    "who waits until page after page is where its file is gets on, and who waits for one alone does not") {
  for (const int call : {SYS_fsync, SYS_close}) {
    Pair pair(call, 90);
    pair.first().state = pair.second().state = "D";
    pair.first().switches = pair.second().switches = 7;
    CHECK(pair.doing().doing == Doing::kInKernel);
    CHECK_FALSE(gets_on(pair.late.first, pair.late.second));
    pair.second().switches = 27;
    CHECK(pair.doing().doing == Doing::kMoves);
    CHECK(gets_on(pair.late.first, pair.late.second));
    CHECK(pair.judged().health == Health::kLate);
    pair.second().call = {};  // it runs
    CHECK(pair.doing().doing == Doing::kMoves);
  }
}

TEST_CASE("of its processes that one is named for whose end it waits") {
  Pair pair(SYS_wait4, 90);
  pair.late.children = {{.pid = 70, .name = "pt_data_worker", .state = "S"},
                        {.pid = 71, .name = "sleep", .state = "S"}};
  CHECK(pair.doing().words.find("pt_data_worker") != std::string::npos);
  pair.first().call.arguments[0] = pair.second().call.arguments[0] = 71;
  CHECK(pair.doing().words.find("pid 71 (sleep)") != std::string::npos);
  CHECK(pair.doing().words.find("pt_data_worker") == std::string::npos);
}

TEST_CASE("who waits for all others to meet may wait for the one that waits for it") {
  Pair pair(SYS_poll, 90);
  const std::string torch = "/usr/lib/python3/site-packages/torch/distributed/distributed_c10d.py";
  for (const std::string function : {"new_group", "monitored_barrier", "recv"}) {
    pair.late.python = {{.tid = pair.late.pid, .name = "MainThread", .owns_gil = false, .frames = {}}};
    pair.late.python[0].frames = {{function, torch, 1, {}}, {"main", "/job/train.py", 7, "go()"}};
    pair.late.native = {{.tid = pair.late.pid, .name = "python3", .functions = {"c10d::RecvWork::wait"}}};
    if (function == "new_group") {
      pair.late.python[0].frames.insert(pair.late.python[0].frames.begin(),
                                        {"_new_process_group_helper", torch, 1, {}});
      pair.late.native[0].functions = {"c10d::TCPStore::get"};
    }
    CAPTURE(function);
    CHECK(pair.judged().guilty == std::vector<int>{1});
    CHECK((pair.judged().confidence == Confidence::kGuess) == (function != "recv"));
  }
}

TEST_CASE("a wait in the kernel that is no longer than usual is no hang") {
  Pair pair(SYS_fsync, 1.2, 10);
  pair.first().state = pair.second().state = "D";
  const Verdict usual = pair.judged();
  CHECK(usual.health == Health::kFine);
  REQUIRE(usual.notes.size() == 1);
  CHECK(usual.notes[0].find("usual") != std::string::npos);
  Pair longer(SYS_fsync, 30, 10);
  longer.first().state = longer.second().state = "D";
  CHECK(longer.judged().health == Health::kStuck);
  CHECK(longer.judged().guilty == std::vector<int>{1});
}

TEST_CASE("who asks every tenth of a second whether something has come is told nothing by waking up") {
  const auto doing = [](int call, int argument, std::uint64_t value) {
    Pair pair(call, 40);
    pair.first().call.arguments[argument] = pair.second().call.arguments[argument] = value;
    pair.second().switches = pair.first().switches + 9;
    return pair;
  };
  CHECK(doing(SYS_poll, 2, 100).doing().doing == Doing::kBlocked);
  CHECK(doing(SYS_epoll_wait, 3, 100).doing().doing == Doing::kBlocked);
  CHECK(doing(SYS_pselect6, 4, 0x7ff0).doing().doing == Doing::kBlocked);
  constexpr auto kForEver = static_cast<std::uint32_t>(-1);
  CHECK(doing(SYS_poll, 2, kForEver).doing().doing == Doing::kMoves);
  CHECK(doing(SYS_epoll_wait, 3, kForEver).doing().doing == Doing::kMoves);
  CHECK(doing(SYS_pselect6, 4, 0).doing().doing == Doing::kMoves);
  Pair hears = doing(SYS_poll, 2, 100);
  hears.late.connections = {{.local = "10.0.0.1:5", .remote = "10.0.0.9:80", .came = 40}};
  CHECK(hears.doing().doing == Doing::kMoves);
  Pair reads = doing(SYS_poll, 2, 100);
  reads.late.second.read_bytes = reads.late.first.read_bytes + 8;
  CHECK(reads.doing().doing == Doing::kMoves);
}

TEST_CASE("who waits for something gets no less of a CPU for the quota that others have used up") {
  Pair pair(SYS_read, 40);
  pair.late.object.path = "/fifo";
  pair.late.second.throttled_s = 2;
  CHECK(pair.doing().doing == Doing::kBlocked);
  pair.second().state = "R";
  pair.second().cpu_s = pair.first().cpu_s + 0.1;
  CHECK(pair.doing().doing == Doing::kStarved);
}

TEST_CASE("a lost connection to a service is not the network between the ranks") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
  for (RankFacts* rank : {&a, &b}) enter(*rank, "all_reduce", 30, false);
  a.connections = {{"10.0.0.1:40123", "34.1.2.3:443", 96, 0, 7}};
  JobPicture picture = picture_of({a, b});
  CHECK(judge(picture).guilty.empty());
  CHECK(judge(picture).confidence == Confidence::kGuess);
  picture.world_size = 3;
  CHECK(judge(picture).guilty.empty());
}

TEST_CASE("of several late ranks that do different things, one may wait for another") {
  RankFacts a = rank_in(0, SYS_recvfrom), b = rank_in(1, SYS_clock_nanosleep), c = rank_in(2, SYS_futex);
  for (RankFacts* rank : {&a, &b, &c}) enter(*rank, "all_reduce", 60, true);
  enter(c, "barrier", 40, false);
  a.object = {.path = "socket:[1]", .silent_s = 60};
  CHECK(judge(picture_of({a, b, c})).guilty == std::vector<int>{0, 1});
  CHECK(judge(picture_of({a, b, c})).confidence == Confidence::kGuess);
  // Who holds the lock of a file does not wait for it, where it is known who that is.
  b = rank_in(1, SYS_flock);
  enter(b, "all_reduce", 60, true);
  b.object.path = "/x.lock";
  CHECK(judge(picture_of({a, b, c})).guilty == std::vector<int>{0, 1});
  CHECK(judge(picture_of({a, b, c})).confidence == Confidence::kGuess);
  b.object.other_end = "pid 100 (python)";
  CHECK(judge(picture_of({a, b, c})).guilty == std::vector<int>{0});
  b.object.other_end = "pid 102 (python)";
  CHECK(judge(picture_of({a, b, c})).guilty == std::vector<int>{0, 1});
  // All in the same place: each of them is late.
  a = rank_in(0, SYS_flock);
  enter(a, "all_reduce", 60, true);
  a.object.path = "/x.lock";
  CHECK(judge(picture_of({a, b, c})).guilty == std::vector<int>{0, 1});
  CHECK(judge(picture_of({a, b, c})).confidence == Confidence::kSure);
}

TEST_CASE("a majority of the ranks that were seen need not be one of all") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex);
  for (RankFacts* rank : {&a, &b}) enter(*rank, "all_reduce", 30, false);
  enter(c, "barrier", 30, false);
  JobPicture picture = picture_of({a, b, c});
  CHECK(judge(picture).confidence == Confidence::kLikely);
  picture.world_size = 9;
  CHECK(judge(picture).confidence == Confidence::kGuess);
}

TEST_CASE("who looks at its child between two sleeps waits for it") {
  Pair pair(SYS_clock_nanosleep, 40);
  pair.late.children = {{.pid = 7, .name = "convert", .is_busy = true}};
  CHECK(pair.judged().health == Health::kLate);
  CHECK(pair.doing().words == "waits for pid 7 (convert), which computes");
  pair.late.children[0].bytes_per_s = 2e6;
  CHECK(pair.doing().words == "waits for pid 7 (convert), which reads or writes (1.9 MiB/s)");
  pair.late.children[0].is_busy = false;
  CHECK(pair.judged().health == Health::kStuck);
}

TEST_CASE("data that goes out over TCP is progress, of the main thread and of another one") {
  Pair pair(SYS_sendto, 40);
  pair.late.object = {.path = "socket:[5]", .other_end = "34.1.2.3:443"};
  pair.late.connections = {{.local = "10.0.0.1:5", .remote = "34.1.2.3:443", .unsent = 60000}};
  CHECK(pair.judged().health == Health::kStuck);
  pair.late.connections[0].went = 900;
  CHECK(pair.judged().health == Health::kLate);
  pair.late.connections[0].went = 200000;
  CHECK(pair.doing().words ==
        "waits in send() of a socket to 34.1.2.3:443; 195.3 KiB/s go over its connection to 34.1.2.3:443");
  Pair thread(SYS_futex, 40);
  thread.late.connections = pair.late.connections;
  CHECK(thread.judged().health == Health::kLate);
  thread.late.connections[0].went = 300;
  CHECK(thread.judged().health == Health::kStuck);
}

TEST_CASE("what a rank waits for behind a lock is told: a thread that is at something, or its processes") {
  Pair pair(SYS_futex, 40);
  const PythonThread main{
      .tid = pair.late.pid,
      .name = "MainThread",
      .frames = {{"Condition.wait", "/usr/lib/python3.11/threading.py", 327, "waiter.acquire()"},
                 {"main", "/job/train.py", 9, "future.result()"}}};
  const PythonThread idle{
      .tid = 5, .name = "pin", .frames = {{"get", "/usr/lib/python3.11/queue.py", 1, ""}}};
  const PythonThread at_work{
      .tid = 6, .name = "Thread-1", .frames = {{"load", "/job/data.py", 3, "open(path)"}}};
  pair.late.python = {main, idle};
  CHECK(pair.doing().words == "waits for a lock or for another thread of its own (futex)");
  pair.late.python.push_back(at_work);
  CHECK(pair.doing().words ==
        "waits for a lock or for another thread of its own (futex); its thread Thread-1 is in load at "
        "data.py:3: "
        "open(path)");
  pair.late.python.pop_back();
  pair.late.children = {{.pid = 7, .name = "python", .state = "Z"}};
  CHECK(pair.doing().words ==
        "waits for a lock or for another thread of its own (futex); its processes: pid 7 (python) has ended");
}

TEST_CASE("who holds the lock of a file is told by the kernel's list") {
  const std::string locks =
      "1: POSIX  ADVISORY  WRITE 4700 08:01:42 0 EOF\n"
      "2: FLOCK  ADVISORY  WRITE 4711 08:01:43 0 EOF\n"
      "2: -> FLOCK  ADVISORY  WRITE 4712 08:01:43 0 EOF\n"
      "2: -> FLOCK  ADVISORY  WRITE 4713 08:01:43 0 EOF\n";
  CHECK(holder_of_lock(locks, 4712) == 4711);
  CHECK(holder_of_lock(locks, 4713) == 4711);
  CHECK(holder_of_lock(locks, 4711) == 0);
  CHECK(holder_of_lock("", 4711) == 0);
  Pair pair(SYS_flock, 40);
  pair.late.object = {.path = "/x.lock", .other_end = "pid 4711 (python)"};
  CHECK(pair.doing().words == "waits for a lock of the file /x.lock, which pid 4711 (python) holds");
}

TEST_CASE("a FIFO is not taken for a file on a disk") {
  Pair pair(SYS_writev, 40);
  pair.late.object = {.path = "/x/fifo", .mount = "ext4", .source = "/dev/vda"};
  pair.second().wait_channel = "anon_pipe_write";
  CHECK(pair.doing().words == "is blocked in writev() to /x/fifo, a FIFO that is full, which nobody reads");
}

TEST_CASE("nobody is the slowest of a job that does not get on, nor for one long pause") {
  const auto judged = [](double silent, double pause) {
    RankFacts a = rank_in(0, SYS_clock_nanosleep), b = rank_in(1, SYS_read);
    for (int i = 10; i > 0; --i) {
      const double late = pause > 0 ? (i == 1 ? pause : 0) : 0.1;
      enter(a, "all_reduce", silent + pause + 0.15 * i, true);
      enter(b, "all_reduce", silent + pause + 0.15 * i - late, true);
    }
    return judge(picture_of({a, b})).health;
  };
  CHECK(judged(0.1, 0) == Health::kSlow);
  CHECK(judged(4, 0) == Health::kFine);
  CHECK(judged(0.1, 12) == Health::kFine);
  // Buckets come in bursts, and what counts is their share of the step.
  const auto in_bursts = [](double late) {
    RankFacts a = rank_in(0, SYS_clock_nanosleep), b = rank_in(1, SYS_read);
    for (int step = 6; step > 0; --step) {
      for (int bucket = 0; bucket < 5; ++bucket) {
        enter(a, "all_reduce", 5.0 * step - 0.04 * bucket, true);
        enter(b, "all_reduce", 5.0 * step - 0.04 * bucket - late, true);
      }
    }
    return judge(picture_of({a, b})).health;
  };
  CHECK(in_bursts(0.03) == Health::kFine);
  CHECK(in_bursts(2) == Health::kSlow);
}

TEST_CASE("ranks that nobody has missed, because their launcher is stopped, have ended") {
  std::vector<RankFacts> ranks = {rank_in(0, -1), rank_in(1, -1)};
  for (RankFacts& rank : ranks) rank.second.threads.front().state = "Z";
  JobPicture picture = picture_of(ranks);
  picture.launcher = 4711;
  picture.is_launcher_stopped = true;
  const Verdict verdict = judge(picture);
  CHECK(verdict.health == Health::kEnding);
  CHECK(verdict.ranks[0].activity.words == "has ended, which its launcher has not noticed");
  REQUIRE_FALSE(verdict.notes.empty());
  CHECK(verdict.notes[0].find("kill -CONT 4711") != std::string::npos);
}

TEST_CASE("where all sleep or wait and nothing is recorded of it, the page says so") {
  RankFacts a = rank_in(0, SYS_openat), b = rank_in(1, SYS_clock_nanosleep);
  for (RankFacts* rank : {&a, &b}) enter(*rank, "all_reduce", 30, true);
  const Verdict verdict = judge(picture_of({a, b}));
  CHECK(verdict.health == Health::kFine);
  REQUIRE(verdict.notes.size() == 1);
  CHECK(verdict.notes[0].find("none has entered a collective for 30") != std::string::npos);
  compute(b);
  CHECK(judge(picture_of({a, b})).notes.empty());
}
