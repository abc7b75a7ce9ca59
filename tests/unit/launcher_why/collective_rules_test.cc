#include "launcher/why/verdict/scene.h"
#include "launcher/why/verdict/straggler.h"
#include "launcher/why/verdict/verdict.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher_why/made_pictures.h"

#include <sys/syscall.h>

#include <vector>

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
