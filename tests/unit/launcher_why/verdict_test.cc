#include "launcher/why/verdict/verdict.h"

#include "launcher/why/facts/facts_json.h"
#include "launcher/why/verdict/scene.h"
#include "launcher/why/verdict/straggler.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher_why/made_pictures.h"

#include <sys/syscall.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

using ddprun::launcher::Straggler;
using namespace ddprun::launcher::why;

TEST_CASE("who is in a group and has never used it is late where another member waits in it") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_clock_nanosleep), c = rank_in(2, SYS_futex);
  for (RankFacts* rank : {&a, &b}) join(*rank, "1");
  enter(a, "all_reduce", 38, false, "1");
  // Rank 2 is not in the group, does nothing, and is not meant.
  const Verdict alone = judge(picture_of({a, b, rank_in(2, SYS_clock_nanosleep)}));
  CHECK(alone.guilty == std::vector<int>{1});
  CHECK(alone.waiting == std::vector<int>{0});
  CHECK(
      alone.reason ==
      "rank 1 is late: it has not entered all_reduce #1 of group \"1\", where rank 0 has waited for 38.0 s");
  // Rank 2 waits for both, and rank 0 for rank 1.
  enter(c, "all_reduce", 38, false);
  CHECK(judge(picture_of({a, b, c})).guilty == std::vector<int>{1});
  compute(b);
  CHECK(judge(picture_of({a, b})).health == Health::kLate);
  b.pid = 0;
  CHECK(judge(picture_of({a, b})).reason == "rank 1 has ended, while rank 0 still waits for it");
}

TEST_CASE("where a rank waits in a group, nobody is accused who does not say that it is in it") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_clock_nanosleep);
  enter(a, "all_reduce", 38, false, "1");
  CHECK(judge(picture_of({a, b})).guilty.empty());
  join(a, "1");
  CHECK(judge(picture_of({a, b})).guilty.empty());
  join(b, "1");
  CHECK(judge(picture_of({a, b})).guilty == std::vector<int>{1});
  RankFacts unknown = b;
  unknown.native.clear();
  for (Recorder* recorder : {&unknown.recorder_first, &unknown.recorder})
    recorder->problem = "the flight recorder of this torch is laid out differently";
  CHECK(judge(picture_of({a, unknown})).guilty.empty());
  // A group of which all have told, and nobody is missing.
  enter(b, "all_reduce", 38, false, "1");
  CHECK(judge(picture_of({a, b})).guilty.empty());
}

TEST_CASE("who was in a collective so long ago that its entry is not shown is not late for it") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_clock_nanosleep);
  join(a, "1");
  join(b, "1", 1);
  join(c, "1");
  enter(a, "all_reduce", 38, false, "1");
  CHECK(judge(picture_of({a, b, c})).guilty == std::vector<int>{2});
}

TEST_CASE("groups of one name with other members are not taken for one") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_clock_nanosleep),
            c = rank_in(2, SYS_clock_nanosleep), d = rank_in(3, SYS_clock_nanosleep);
  for (RankFacts* rank : {&a, &b}) join(*rank, "1", 0, "0-1");
  for (RankFacts* rank : {&c, &d}) join(*rank, "1", 0, "2-3");
  enter(a, "all_reduce", 38, false, "1");
  CHECK(judge(picture_of({a, b, c, d})).guilty == std::vector<int>{1});
}

TEST_CASE("the rank that has not entered where the others wait is guilty") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_read), c = rank_in(2, SYS_futex);
  for (RankFacts* rank : {&a, &b, &c}) enter(*rank, "all_reduce", 40, true);
  enter(a, "all_reduce", 38, false);
  enter(c, "all_reduce", 38, false);
  const Verdict verdict = judge(picture_of({a, b, c}));
  CHECK(verdict.health == Health::kStuck);
  CHECK(verdict.guilty == std::vector<int>{1});
  CHECK(verdict.waiting == std::vector<int>{0, 2});
  CHECK(verdict.reason ==
        "rank 1 is late: it has not entered all_reduce #2, where ranks 0, 2 have waited for 38.0 s");
}

TEST_CASE(
    "who has been in collectives of another group while the others waited is not late, though it sleeps "
    "now") {
  for (const int newest : {2, 9}) {
    RankFacts a = rank_in(0, SYS_clock_nanosleep), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex),
              d = rank_in(3, SYS_clock_nanosleep);
    for (RankFacts* rank : {&a, &b, &c, &d}) enter(*rank, "all_reduce", 15, true);
    for (RankFacts* rank : {&b, &c}) enter(*rank, "barrier", 14, false);
    for (RankFacts* rank : {&a, &d}) {
      join(*rank, "1", 0, "0,3");
      for (int ago = 14; ago >= newest; --ago) enter(*rank, "all_reduce", ago, true, "1");
    }
    const Verdict verdict = judge(picture_of({a, b, c, d}));
    CHECK(verdict.health == (newest == 2 ? Health::kFine : Health::kStuck));
    CHECK(verdict.guilty == (newest == 2 ? std::vector<int>{} : std::vector<int>{0, 3}));
  }
}

TEST_CASE("a late rank that computes is told from one that does nothing") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_read);
  enter(a, "all_reduce", 38, false);
  compute(b);
  CHECK(judge(picture_of({a, b})).health == Health::kLate);
}

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

TEST_CASE(
    "what a rank has done in a group that is gone is forgotten with the first of another one of that name") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
  for (RankFacts* rank : {&a, &b}) {
    for (int i = 0; i < 3; ++i) enter(*rank, "broadcast", 50 - i, true);
    enter(*rank, "all_reduce", 40, rank == &b);
    rank->recorder.entries.back().sequence = 1;
  }
  // Both are in the new group; rank 0 waits in its #1, which rank 1 has left.
  CHECK(judge(picture_of({a, b})).guilty != std::vector<int>{0});
  const JobPicture picture = picture_of({a, b});
  const Scene scene(picture);
  CHECK(scene.groups().begin()->second.last_entered(1) == 1);
}

TEST_CASE("two groups that are used by threads of their own are no hang after a usual wait") {
  const auto judged = [](double age_s) {
    RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
    for (RankFacts* rank : {&a, &b}) {
      for (int i = 0; i < 3; ++i) enter(*rank, "all_reduce", age_s + 10 * (3 - i), true);
      join(*rank, "1", 0);
    }
    enter(a, "all_reduce", age_s, false);
    enter(b, "all_gather", age_s, false, "1");
    return judge(picture_of({a, b})).health;
  };
  CHECK(judged(15) == Health::kFine);
  CHECK(judged(30) == Health::kStuck);
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

TEST_CASE("who has only been in a group that is gone is missing in the one that was made under its name") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
  for (RankFacts* rank : {&a, &b}) {
    for (int i = 0; i < 20; ++i) enter(*rank, "all_reduce", 60 - i, true);
  }
  b.recorder.memberships = {{.group = "0", .newest = {{"gloo", 20}}}};
  enter(a, "all_gather", 38, false);
  a.recorder.entries.back().sequence = 1;
  const Verdict stuck = judge(picture_of({a, b}));
  CHECK(stuck.health == Health::kStuck);
  CHECK(stuck.guilty == std::vector<int>{1});
  compute(b);
  CHECK(judge(picture_of({a, b})).health == Health::kLate);
}

TEST_CASE("who is in a group that was made again is not taken for one of the group before") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex);
  for (int i = 0; i < 20; ++i) enter(a, "all_reduce", 60 - i, true);
  // Rank 1's recorder is full of other things, and rank 2 has done its last of the group before a little later.
  for (int i = 0; i < 20; ++i) enter(c, "all_reduce", 60 - i - 0.1, true);
  enter(b, "all_gather", 40, false);
  enter(a, "all_gather", 38, false);
  a.recorder.entries.back().sequence = 1;
  const Verdict verdict = judge(picture_of({a, b, c}));
  CHECK(verdict.guilty == std::vector<int>{2});
  CHECK(verdict.waiting == std::vector<int>{0, 1});
}

TEST_CASE("a group that was made again may hang at the number with which the one before ended") {
  std::vector<RankFacts> ranks{rank_in(0, SYS_futex), rank_in(1, SYS_clock_nanosleep), rank_in(2, SYS_futex)};
  for (RankFacts& rank : ranks) {
    for (int i = 0; i < 20; ++i) enter(rank, "all_reduce", 80 - i, true);
    for (int i = 0; i < (rank.rank == 1 ? 19 : 20); ++i) {
      enter(rank, "all_reduce", 58 - i, i < 19);
      rank.recorder.entries.back().sequence = i + 1;
    }
    rank.recorder_first = rank.recorder;
  }
  CHECK(judge(picture_of(ranks)).guilty == std::vector<int>{1});
}

TEST_CASE(
    "ranks in different orders that compute are late, and a cycle is stuck whatever another part waits for") {
  const auto cycle = [](bool computes) {
    RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex),
              d = rank_in(3, SYS_futex);
    for (const char* group : {"1", "2"}) {
      for (RankFacts* rank : {&a, &b}) enter(*rank, "barrier", 42, true, group);
    }
    enter(a, "all_reduce", 38, false, "1");
    enter(b, "all_reduce", 38, false, "2");
    for (RankFacts* rank : {&c, &d}) enter(*rank, "barrier", 42, true, "3");
    enter(c, "all_reduce", 38, false, "3");
    compute(d);
    if (computes) compute(a);
    return judge(picture_of({a, b, c, d}));
  };
  CHECK(cycle(false).health == Health::kStuck);
  CHECK(cycle(false).reason.find("different orders") != std::string::npos);
  CHECK(cycle(true).health == Health::kLate);
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

TEST_CASE("who computes and is over with what the others do at that place is late, and not stuck") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex);
  for (RankFacts* rank : {&a, &b}) enter(*rank, "all_reduce", 38, false);
  enter(c, "broadcast", 100, true);
  CHECK(judge(picture_of({a, b, c})).health == Health::kStuck);
  compute(c);
  const Verdict verdict = judge(picture_of({a, b, c}));
  CHECK(verdict.health == Health::kLate);
  CHECK(verdict.guilty == std::vector<int>{2});
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

TEST_CASE("a child that computes, and from which a thread of the rank reads, is what the rank waits for") {
  RankFacts a = rank_in(0, SYS_futex);
  a.children.push_back({.pid = 7, .name = "python3", .state = "R", .is_busy = true});
  CHECK(activity_of(a).doing == Doing::kBlocked);
  a.children.front().feeds = true;
  CHECK(activity_of(a).doing == Doing::kMoves);
}

TEST_CASE("a server from which something came a moment ago is slow, and one that is silent is not") {
  RankFacts a = rank_in(0, SYS_recvfrom);
  a.object.path = "socket:[4711]";
  a.object.silent_s = 60;
  CHECK(activity_of(a).doing == Doing::kBlocked);
  a.object.silent_s = 5;
  CHECK(activity_of(a).doing == Doing::kMoves);
}

TEST_CASE("who is late because it waits for another one is not guilty") {
  // 0 and 1 wait for 2 in the world; 2 waits for 3 in a group of theirs; 3 sleeps.
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex),
            d = rank_in(3, SYS_clock_nanosleep);
  for (RankFacts* rank : {&c, &d}) enter(*rank, "barrier", 42, true, "1");
  enter(a, "all_reduce", 30, false);
  enter(b, "all_reduce", 30, false);
  enter(c, "barrier", 40, false, "1");
  CHECK(judge(picture_of({a, b, c, d})).guilty == std::vector<int>{3});
}

TEST_CASE("groups in different orders are told as that, and the minority is suspected") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex);
  for (RankFacts* rank : {&a, &b}) enter(*rank, "barrier", 32, true, "1");
  enter(a, "barrier", 30, false, "1");
  enter(b, "all_reduce", 30, false);
  enter(c, "all_reduce", 30, false);
  const Verdict verdict = judge(picture_of({a, b, c}));
  CHECK(verdict.guilty == std::vector<int>{0});
  CHECK(verdict.reason.find("in different orders") != std::string::npos);
}

TEST_CASE("of different collectives at one place the minority is suspected, and of two nobody") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex);
  enter(a, "all_reduce", 30, false);
  enter(b, "barrier", 30, false);
  enter(c, "all_reduce", 30, false);
  const Verdict three = judge(picture_of({a, b, c}));
  CHECK(three.guilty == std::vector<int>{1});
  CHECK(three.confidence == Confidence::kLikely);
  const Verdict two = judge(picture_of({a, b}));
  CHECK(two.guilty == std::vector<int>{0, 1});
  CHECK(two.confidence == Confidence::kGuess);
}

TEST_CASE("sends and receives have no place among the collectives of all") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_clock_nanosleep);
  for (RankFacts* rank : {&a, &b}) enter(*rank, "all_reduce", 40, true);
  enter(a, "recv 0<-1", 30, false);
  enter(b, "send 1->0", 35, true);
  for (RankFacts* rank : {&a, &b}) {
    rank->recorder.entries.back().is_peer = true;
    rank->recorder.entries.back().sequence = 1;
  }
  const Verdict verdict = judge(picture_of({a, b}));
  CHECK(verdict.ranks[0].activity.doing == Doing::kWaitsForPeer);
  CHECK(verdict.ranks[0].activity.words == "waits in recv 0<-1 for another rank");
  CHECK(verdict.reason.find("different collectives") == std::string::npos);
  CHECK(find_straggler(picture_of({a, b})).rank == -1);
}

TEST_CASE("of several that are held each is told with its own number, and what they share is said once") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
  for (RankFacts* rank : {&a, &b}) rank->second.threads[0].state = "T";
  CHECK(judge(picture_of({a, b})).reason ==
        "rank 0 is stopped by a signal (SIGSTOP); kill -CONT 100 lets it go on; rank 1 is stopped by a "
        "signal (SIGSTOP); kill -CONT 101 lets it go on");
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

TEST_CASE("the rank that is last every time is the straggler, by how much and by what share") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
  for (int i = 10; i > 0; --i) {
    enter(a, "all_reduce", i, true);
    enter(b, "all_reduce", i - 0.3, true);
  }
  const Straggler straggler = find_straggler(picture_of({a, b}));
  CHECK(straggler.rank == 1);
  CHECK(static_cast<int>(straggler.late_s * 10 + 0.5) == 3);
  CHECK(static_cast<int>(straggler.share * 100 + 0.5) == 30);
}

TEST_CASE("of several nodes the straggler is the latest of those that share a clock") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex),
            d = rank_in(3, SYS_futex);
  for (RankFacts* rank : {&c, &d}) rank->host = "b";
  for (int i = 10; i > 0; --i) {
    enter(a, "all_reduce", i, true);
    enter(b, "all_reduce", i - 0.001, true);
    enter(c, "all_reduce", i + 0.5 - 0.3, true);  // its answer took half a second
    enter(d, "all_reduce", i + 0.5, true);
  }
  JobPicture picture = picture_of({a, b, c, d});
  picture.asks_others = true;
  CHECK(find_straggler(picture).rank == 2);
  const Verdict verdict = judge(picture);
  CHECK(verdict.health == Health::kSlow);
  CHECK(verdict.reason ==
        "rank 2 is the slowest of those on its host: at collectives it comes 300 ms after the first, 30 % of "
        "the time "
        "from one to the next");
}

TEST_CASE("who waits for others to make a group is not said to wait in init_process_group") {
  for (const std::string maker : {"new_group", "init_process_group"}) {
    RankFacts a = rank_in(0, SYS_poll);
    const std::string torch = "/venv/site-packages/torch/distributed/distributed_c10d.py";
    a.object.is_store = true;
    a.python = {{.tid = a.pid, .name = "MainThread", .owns_gil = false, .frames = {}}};
    a.python[0].frames = {{"_new_process_group_helper", torch, 1, {}}, {maker, torch, 2, {}}};
    CHECK(activity_of(a).words == "waits for the other ranks to meet (" + maker + ")");
  }
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
