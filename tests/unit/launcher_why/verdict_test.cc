#include "launcher/why/verdict/verdict.h"

#include "launcher/why/verdict/page.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher_why/made_pictures.h"

#include <sys/syscall.h>

#include <string>
#include <vector>

using namespace ddprun::launcher::why;

TEST_CASE("a wait that is no longer than usual is no hang") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_clock_nanosleep);
  for (const double age : {13.0, 10.0, 7.0}) {
    enter(a, "all_reduce", age, true);
    enter(b, "all_reduce", age, true);
  }
  enter(a, "all_reduce", 4, false);
  CHECK(judge(picture_of({a, b})).health == Health::kFine);
  a.recorder.entries.back().created_ns -= 10 * kSecond;
  CHECK(judge(picture_of({a, b})).health == Health::kStuck);
}

TEST_CASE("a job of which anything was done between the looks is not stuck") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_read);
  enter(a, "all_reduce", 38, false);
  ++b.recorder.next;
  CHECK(judge(picture_of({a, b})).health == Health::kFine);
}

TEST_CASE(
    "a hang of one half of a job is told while the other half gets on, and who waits for that half is not") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_read), c = rank_in(2, SYS_futex),
            d = rank_in(3, SYS_futex);
  for (RankFacts* rank : {&a, &b}) enter(*rank, "barrier", 42, true, "1");
  enter(a, "all_reduce", 38, false, "1");
  for (RankFacts* rank : {&c, &d}) enter(*rank, "all_reduce", 20, true, "2");
  for (RankFacts* rank : {&c, &d}) ++rank->recorder.next;
  const Verdict half = judge(picture_of({a, b, c, d}));
  CHECK(half.health == Health::kStuck);
  CHECK(half.guilty == std::vector<int>{1});
  CHECK(half.waiting == std::vector<int>{0});
  CHECK(half.is_of_part);
  CHECK(half.moved_s == 0);
  // Rank 1 waits itself, for rank 2, which gets on.
  for (RankFacts* rank : {&b, &c}) enter(*rank, "barrier", 41, true, "3");
  enter(b, "barrier", 38, false, "3");
  CHECK(judge(picture_of({a, b, c, d})).guilty == std::vector<int>{2});
  ++c.recorder.next;
  CHECK(judge(picture_of({a, b, c, d})).health == Health::kFine);
}

TEST_CASE("who waits for a message while others get on is not accused, for it may wait for them") {
  // Rank 1 waits in the world for rank 0, which receives; ranks 2 and 3 get on in a group of theirs.
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex),
            d = rank_in(3, SYS_futex);
  a.native = {{.tid = a.pid, .name = "python3", .functions = {"gloo::RecvWork::wait"}}};
  for (RankFacts* rank : {&a, &b}) enter(*rank, "barrier", 42, true, "1");
  enter(b, "broadcast", 38, false, "1");
  CHECK(judge(picture_of({a, b})).guilty == std::vector<int>{0});
  CHECK(judge(picture_of({a, b, c, d})).guilty == std::vector<int>{0, 2, 3});
  CHECK(judge(picture_of({a, b, c, d})).confidence == Confidence::kGuess);
  for (RankFacts* rank : {&c, &d}) enter(*rank, "all_reduce", 1, true, "2");
  for (RankFacts* rank : {&c, &d}) ++rank->recorder.next;
  const Verdict verdict = judge(picture_of({a, b, c, d}));
  CHECK(verdict.health == Health::kFine);
  CHECK(verdict.moved_s == 0);
}

TEST_CASE("who waits for an answer of the store is known by the connection, without native stacks") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_poll);
  for (RankFacts* rank : {&a, &b}) enter(*rank, "all_reduce", 32, true);
  enter(a, "all_reduce", 30, false);
  b.object.is_store = true;
  const Verdict verdict = judge(picture_of({a, b}));
  CHECK(verdict.guilty == std::vector<int>{1});
  CHECK(verdict.ranks[1].activity.words == "waits for a key in the store that nobody has set");
}

TEST_CASE("what comes from another rank between the looks is progress, and what NCCL says there is not") {
  RankFacts a = rank_in(0, SYS_clock_nanosleep), b = rank_in(1, SYS_futex);
  enter(b, "all_reduce", 38, false);
  a.connections = {{.local = "h:1", .remote = "h:2"}};
  b.connections = {{.local = "h:2", .remote = "h:1", .came = 8}};
  CHECK(judge(picture_of({a, b})).health == Health::kFine);
  for (RankFacts* rank : {&a, &b}) {
    rank->second.threads.push_back({.tid = 7, .name = "pt_nccl_watchdg"});
    CHECK(judge(picture_of({a, b})).health == Health::kStuck);
    rank->second.threads.pop_back();
  }
  b.connections.push_back({.local = "h:3", .remote = "h:2", .came = 8});
  b.connections.front().remote = "h:3";  // its own other end
  CHECK(judge(picture_of({a, b})).health == Health::kStuck);
  b.connections.pop_back();
  b.connections.front().remote = "h:80";
  CHECK(judge(picture_of({a, b})).health == Health::kStuck);
}

TEST_CASE("who is stopped while another part gets on is accused of those that wait for it alone") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex);
  for (RankFacts* rank : {&a, &b}) enter(*rank, "barrier", 42, true, "1");
  enter(a, "all_reduce", 38, false, "1");
  for (ProcessLook* look : {&b.first, &b.second}) look->threads.front().state = "T";
  enter(c, "all_reduce", 1, false, "2");
  const Verdict verdict = judge(picture_of({a, b, c}));
  CHECK(verdict.guilty == std::vector<int>{1});
  CHECK(verdict.waiting == std::vector<int>{0});
  CHECK(verdict.is_of_part);
}

TEST_CASE("of several that are held what they share is said once, and how they go on with their numbers") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
  for (RankFacts* rank : {&a, &b}) rank->second.threads[0].state = "T";
  CHECK(judge(picture_of({a, b})).reason == "ranks 0-1 are stopped by a signal (SIGSTOP)");
  CHECK(render(picture_of({a, b}), judge(picture_of({a, b})))
            .find("\n    kill -CONT 100 101 lets them go on\n") != std::string::npos);
  for (RankFacts* rank : {&a, &b}) rank->second.is_frozen = true;
  CHECK(judge(picture_of({a, b})).reason == "ranks 0-1 are frozen by a control group (freezer)");
}

TEST_CASE("who is stopped is guilty, whatever the others do") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
  b.second.threads[0].state = "T";
  const Verdict verdict = judge(picture_of({a, b}));
  CHECK(verdict.guilty == std::vector<int>{1});
  CHECK(verdict.confidence == Confidence::kSure);
}

TEST_CASE(
    "ranks that wait for each other in a group are not said to wait for one that has ended outside of it") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex);
  for (RankFacts* rank : {&a, &b}) join(*rank, "1", 1, "0-1");
  enter(a, "all_reduce", 30, false, "1");
  enter(b, "barrier", 30, false, "1");
  c.pid = 0;
  c.recorder = c.recorder_first = {};
  CHECK(judge(picture_of({a, b, c})).guilty == std::vector<int>{0, 1});
}

TEST_CASE("where all wait in the same collective, the connection that repeats itself is named") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex);
  for (RankFacts* rank : {&a, &b, &c}) enter(*rank, "all_reduce", 30, false);
  a.connections = {{"10.0.0.1:1", "10.0.0.2:2", 192, 0, 5}};
  b.connections = {{"10.0.0.2:2", "10.0.0.1:1", 0, 0, 0}, {"10.0.0.2:3", "10.0.0.3:4", 10, 0, 4}};
  c.connections = {{"10.0.0.3:4", "10.0.0.2:3", 0, 0, 0}};
  const Verdict verdict = judge(picture_of({a, b, c}));
  CHECK(verdict.guilty == std::vector<int>{1});
  CHECK(verdict.reason.find("the network of rank 1") != std::string::npos);
}

TEST_CASE("who goes from call to call is not said to be stuck where another rank receives") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_newfstatat);
  a.native = {{.tid = a.pid, .name = "python3", .functions = {"gloo::RecvWork::wait"}}};
  b.first.threads.front().call.arguments[0] = 1;
  CHECK(judge(picture_of({a, b})).health == Health::kUnknown);
}

TEST_CASE("ranks without a flight recorder are told apart by what they wait for") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_read);
  for (RankFacts* rank : {&a, &b}) rank->recorder.is_there = rank->recorder_first.is_there = false;
  a.native.push_back({a.pid, "ddprun-worker", {"syscall", "c10d::Work::wait", "main"}});
  CHECK(judge(picture_of({a, b})).guilty == std::vector<int>{1});
}

TEST_CASE(
    "who has been in a collective a moment ago, as usual, is not said to be missed where others receive") {
  for (const int newest : {2, 9}) {
    RankFacts a = rank_in(0, SYS_clock_nanosleep), b = rank_in(1, SYS_clock_nanosleep),
              c = rank_in(2, SYS_futex);
    c.native = {{.tid = c.pid, .name = "python3", .functions = {"gloo::RecvWork::wait"}}};
    for (RankFacts* rank : {&a, &b}) {
      join(*rank, "1", 0, "0-1");
      for (int ago = newest + 12; ago >= newest; ago -= 2) enter(*rank, "all_reduce", ago, true, "1");
    }
    const Verdict verdict = judge(picture_of({a, b, c}));
    CHECK(verdict.guilty == (newest == 2 ? std::vector<int>{} : std::vector<int>{0, 1}));
  }
  // Collectives that come once an hour say nothing of the last twenty minutes.
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_read);
  a.native = {{.tid = a.pid, .name = "python3", .functions = {"gloo::RecvWork::wait"}}};
  for (RankFacts* rank : {&a, &b}) {
    for (const int ago : {8400, 4800, 1200}) enter(*rank, "barrier", ago, true);
  }
  CHECK(judge(picture_of({a, b})).health == Health::kStuck);
  CHECK(judge(picture_of({a, b})).guilty == std::vector<int>{1});
}

TEST_CASE("a job in which nobody waits for another is left in peace") {
  CHECK(judge(picture_of({rank_in(0, SYS_clock_nanosleep), rank_in(1, SYS_accept)})).health == Health::kFine);
}

TEST_CASE("who is looked at by another ddprun why is not held by a debugger") {
  RankFacts late = rank_in(1, SYS_read);
  enter(late, "all_reduce", 40, true);
  late.second.tracer = 7;
  late.second.threads[0].state = "t";
  RankFacts waiting = rank_in(0, SYS_futex);
  enter(waiting, "all_reduce", 40, true);
  enter(waiting, "all_reduce", 38, false);
  const auto health = [&](const std::string& tracer) {
    late.second.tracer_name = tracer;
    return judge(picture_of({waiting, late})).health;
  };
  CHECK(health("gdb") == Health::kStuck);
  CHECK(health("why-look") == Health::kLate);
  CHECK(health("py-spy") == Health::kLate);
}
