// What is judged of ranks that have ended, or could not be read or seen.
#include "launcher/why/facts/facts_json.h"
#include "launcher/why/verdict/scene.h"
#include "launcher/why/verdict/straggler.h"
#include "launcher/why/verdict/verdict.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher_why/made_pictures.h"

#include <sys/syscall.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

using ddprun::launcher::Straggler;
using namespace ddprun::launcher::why;

TEST_CASE("a rank of which not all could be read is late only in groups of which it has told") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
  enter(a, "all_reduce", 38, false);
  for (Recorder* recorder : {&b.recorder_first, &b.recorder})
    recorder->problem = "the flight recorder of this torch is laid out differently";
  b.native.clear();
  const Verdict other = judge(picture_of({a, b}));
  CHECK(other.guilty.empty());
  CHECK(std::find(other.notes.begin(), other.notes.end(), b.recorder.problem) != other.notes.end());
  enter(a, "all_reduce", 37, false, "pairs");
  enter(a, "all_reduce", 36, false, "pairs");
  enter(b, "all_reduce", 37, true, "pairs");
  const Verdict own = judge(picture_of({a, b}));
  CHECK(own.guilty == std::vector<int>{1});
  CHECK(own.reason.find("all_reduce #2 of group \"pairs\"") != std::string::npos);
}

TEST_CASE("a job of which some ranks wait and others could not be read is not called fine") {
  std::vector<RankFacts> ranks = {rank_in(0, SYS_futex), rank_in(1, SYS_futex), rank_in(2, SYS_futex)};
  enter(ranks[0], "all_reduce", 32, true);
  enter(ranks[0], "all_reduce", 30, false);
  ranks[0].recorder.memberships.clear();
  for (std::size_t i : {1, 2}) {
    ranks[i].second = {};
    ranks[i].recorder = ranks[i].recorder_first = {};
    ranks[i].problem = "not everything could be read of it in time";
  }
  const Verdict verdict = judge(picture_of(ranks));
  CHECK(verdict.health == Health::kUnknown);
  CHECK(verdict.guilty.empty());
  CHECK(verdict.reason.find("rank 0 waits, perhaps for ranks 1-2") == 0);
}

TEST_CASE("a rank of which another node tells one look alone was not read") {
  for (const char* const text :
       {R"({"rank":1,"pid":5,"second":{"at_s":2,"threads":[{"tid":5,"state":"S","call":{"number":7}}]}})",
        R"({"rank":1,"pid":5,"first":{"at_s":2,"threads":[{"tid":5,"state":"S","call":{"number":7}}]}})"}) {
    const std::optional<RankFacts> facts = parse_rank_facts(text);
    REQUIRE(facts);
    CHECK_FALSE(was_read(*facts));
    CHECK(judge(picture_of({*facts})).ranks.front().activity.words == "is not known");
  }
}

TEST_CASE("a job of which nothing could be read is not called fine") {
  std::vector<RankFacts> ranks = {rank_in(0, SYS_futex), rank_in(1, SYS_futex)};
  for (RankFacts& rank : ranks) rank.first = rank.second = {};
  const Verdict verdict = judge(picture_of(ranks));
  CHECK(verdict.health == Health::kUnknown);
  CHECK(verdict.reason ==
        "of ranks 0-1 not enough could be read in time to say whether they get on: ask again");
}

TEST_CASE("who waits itself is not accused where a rank was not read, for which it may wait") {
  // Rank 0 waits in one group for rank 1, and that in another one for rank 2.
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_clock_nanosleep);
  for (RankFacts* rank : {&a, &b}) enter(*rank, "all_reduce", 42, true, "1");
  for (RankFacts* rank : {&b, &c}) enter(*rank, "all_reduce", 41, true, "2");
  enter(a, "all_reduce", 30, false, "1");
  enter(b, "all_reduce", 30, false, "2");
  CHECK(judge(picture_of({a, b, c})).guilty == std::vector<int>{2});
  c.first = c.second = {};
  c.recorder = c.recorder_first = {};
  for (const bool spins : {false, true}) {
    if (spins) compute(b);
    const Verdict verdict = judge(picture_of({a, b, c}));
    CAPTURE(spins);
    CHECK(verdict.health == Health::kUnknown);
    CHECK(verdict.guilty.empty());
    CHECK(verdict.waiting == std::vector<int>{0, 1});
  }
  // Of a rank on another node that was not seen nobody tells either.
  JobPicture unseen = picture_of({a, b});
  unseen.world_size = 3;
  CHECK(judge(unseen).health == Health::kUnknown);
  CHECK(judge(unseen).guilty.empty());
}

TEST_CASE("a job whose ranks on another node have got on a moment ago has moved then, whatever is recorded") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
  for (RankFacts* rank : {&a, &b}) enter(*rank, "all_reduce", 61, true);
  enter(a, "all_reduce", 60, false);
  compute(b);
  CHECK(judge(picture_of({a, b})).moved_s > 59);
  b.quiet_s = 2;
  CHECK(judge(picture_of({a, b})).moved_s == 2);
}

TEST_CASE("where all ranks of a node wait, and others were not seen, one of those is late") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
  for (RankFacts* rank : {&a, &b}) enter(*rank, "all_reduce", 30, false);
  JobPicture picture = picture_of({a, b});
  picture.world_size = 4;
  CHECK(judge(picture).reason ==
        "all ranks of this node wait in all_reduce #1; who is late is on another node: ask there");
}

TEST_CASE("where one of several processes of a worker was seen, who is late may be another") {
  RankFacts a = rank_in(0, SYS_futex);
  enter(a, "all_reduce", 30, false);
  a.siblings = 3;
  const Verdict verdict = judge(picture_of({a}));
  CHECK(verdict.guilty.empty());
  CHECK(verdict.reason == "all processes that were seen wait in all_reduce #1; who is late was not seen");
  CHECK(verdict.notes ==
        std::vector<std::string>{"of rank 0 pid 100 was seen, the oldest of 4 processes that train"});
}

TEST_CASE("an exit code is told only where it is known") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
  enter(a, "all_reduce", 30, false);
  b.pid = 0;
  CHECK(judge(picture_of({a, b})).reason == "rank 1 has ended, while rank 0 still waits for it");
  b.ended_with_0 = true;
  CHECK(judge(picture_of({a, b})).reason ==
        "rank 1 has ended by itself with exit code 0, while rank 0 still waits for it");
}

TEST_CASE("who has ended is guilty where others wait, and where nobody does is not") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
  b.pid = 0;
  CHECK(judge(picture_of({a, b})).health == Health::kFine);
  enter(a, "all_reduce", 30, false);
  CHECK(judge(picture_of({a, b})).guilty == std::vector<int>{1});
}

TEST_CASE("who has ended outside of the group in which others wait is not accused of a member that lives") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex),
            d = rank_in(3, SYS_futex);
  for (RankFacts* rank : {&a, &b, &c}) {
    enter(*rank, "all_reduce", 40, true, "1");
    join(*rank, "1", 1, "0-2");
  }
  enter(a, "barrier", 30, false, "1");
  enter(c, "barrier", 30, false, "1");
  d.pid = 0;
  d.ended_with_0 = true;
  d.recorder = d.recorder_first = {};
  CHECK(judge(picture_of({a, b, c, d})).guilty == std::vector<int>{1});
  compute(b);
  const Verdict late = judge(picture_of({a, b, c, d}));
  CHECK(late.guilty == std::vector<int>{1});
  CHECK(late.health == Health::kLate);
}

TEST_CASE("of one that has ended and one that works nobody is sure which of them the others wait for") {
  RankFacts a = rank_in(0, SYS_poll), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex);
  a.object.is_store = true;
  compute(b);
  c.pid = 0;
  c.ended_with_0 = true;
  c.recorder = c.recorder_first = {};
  const Verdict doubtful = judge(picture_of({a, b, c}));
  CHECK(doubtful.health == Health::kLate);
  CHECK(doubtful.confidence == Confidence::kGuess);
  b.pid = 0;
  b.ended_with_0 = true;
  const Verdict likely = judge(picture_of({a, b, c}));
  CHECK(likely.health == Health::kStuck);
  CHECK(likely.confidence == Confidence::kLikely);
}

TEST_CASE("one that computes with a message under way may be the one for whom another waits") {
  RankFacts a = rank_in(0, SYS_poll), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex);
  a.object.is_store = true;
  enter(b, "recv", 200, false);
  b.recorder.entries.back().is_peer = true;
  b.recorder_first = b.recorder;
  compute(b);
  for (const bool has_ended : {false, true}) {
    if (has_ended) c.pid = 0;
    const Verdict verdict = judge(picture_of({a, b, c}));
    CAPTURE(has_ended);
    CHECK(verdict.guilty == std::vector<int>{1, 2});
    CHECK(verdict.health == Health::kLate);
    CHECK(verdict.confidence == Confidence::kGuess);
  }
}

namespace {

/// Two ranks that were in their last collective `left_s` ago; for 400 s a thread in the background of rank 1, or 0, has
/// waited for the other in a group of their own.
struct WithBackground {
  RankFacts a, b;

  WithBackground(int call_0, int call_1, int waits, double left_s = 70)
      : a(rank_in(0, call_0)), b(rank_in(1, call_1)) {
    for (RankFacts* rank : {&a, &b}) {
      for (int i = 20; i > 0; --i) enter(*rank, "all_reduce", left_s + i, true);
      join(*rank, "1", rank->rank == waits ? 15 : 14, "0-1");
    }
    RankFacts& waiting = waits == 0 ? a : b;
    enter(waiting, "all_gather", 400, false, "1");
    waiting.recorder.entries.back().sequence = 15;
    waiting.recorder.entries.back().lingers = true;
    std::rotate(waiting.recorder.entries.begin(), waiting.recorder.entries.end() - 1,
                waiting.recorder.entries.end());
    waiting.recorder_first = waiting.recorder;
  }
  [[nodiscard]] Verdict judged() const { return judge(picture_of({a, b})); }
};

}  // namespace

TEST_CASE("a hang in the background is told, however long ago it began, as a guess") {
  const Verdict verdict = WithBackground(SYS_futex, SYS_futex, 0).judged();
  CHECK(verdict.health == Health::kStuck);
  CHECK(verdict.confidence == Confidence::kGuess);
  CHECK(verdict.guilty == std::vector<int>{1});
  CHECK(verdict.waited_s > 300);
  REQUIRE(verdict.ranks.size() == 2);
  CHECK(verdict.ranks[0].activity.doing == Doing::kBlocked);
  // What others do meanwhile shows that the job gets on.
  CHECK(WithBackground(SYS_futex, SYS_futex, 0, 20).judged().health == Health::kFine);
  for (const bool is_waiting_one : {false, true}) {
    WithBackground computes(SYS_futex, SYS_futex, 0);
    compute(is_waiting_one ? computes.a : computes.b);
    CHECK(computes.judged().health == Health::kFine);
  }
  WithBackground works(SYS_futex, SYS_poll, 1);
  works.b.children = {{.pid = 70, .name = "pt_data_worker", .state = "R", .is_busy = true}};
  CHECK(works.judged().health == Health::kFine);
  WithBackground has_paused(SYS_futex, SYS_futex, 0);  // between its rounds for 50 s each time
  for (RankFacts* rank : {&has_paused.a, &has_paused.b}) {
    for (Collective& entry : rank->recorder.entries) {
      if (!entry.lingers && entry.sequence < 10) entry.created_ns -= 50 * kSecond;
    }
    rank->recorder_first = rank->recorder;
  }
  CHECK(has_paused.judged().health == Health::kFine);
}

TEST_CASE("who listens to each other in the background does not wait for each other") {
  WithBackground pair(SYS_futex, SYS_futex, 0, 1);
  join(pair.a, "2", 3, "0-1");
  join(pair.b, "2", 4, "0-1");
  enter(pair.b, "broadcast", 300, false, "2");
  pair.b.recorder.entries.back().sequence = 4;
  pair.b.recorder.entries.back().lingers = true;
  std::rotate(pair.b.recorder.entries.begin(), pair.b.recorder.entries.end() - 1,
              pair.b.recorder.entries.end());
  pair.b.recorder_first = pair.b.recorder;
  CHECK(pair.judged().health == Health::kFine);
}

TEST_CASE("a wait in the background changes nothing of what is told of the foreground") {
  WithBackground hang(SYS_poll, SYS_read,
                      1);  // rank 1 listens to rank 0, and hangs in a read while rank 0 receives
  hang.a.native[0].functions = {"gloo::RecvWork::wait"};
  hang.b.object.path = "/fifo";
  CHECK(hang.judged().guilty == std::vector<int>{1});
  WithBackground loads(SYS_futex, SYS_poll, 1);
  enter(loads.a, "all_reduce", 69, false);
  loads.b.children = {{.pid = 70, .name = "pt_data_worker", .state = "R", .is_busy = true}};
  CHECK(loads.judged().health == Health::kLate);
  CHECK(loads.judged().guilty == std::vector<int>{1});
  WithBackground usual(SYS_read, SYS_futex, 1, 0.5);
  usual.a.first.threads[0].state = usual.a.second.threads[0].state = "D";
  enter(usual.b, "all_reduce", 1.2, false);
  CHECK(usual.judged().health == Health::kFine);
}

TEST_CASE("beside one that spins in a message over NCCL nobody is accused without a doubt") {
  RankFacts a = rank_in(0, SYS_poll), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex);
  a.object.is_store = true;
  enter(b, "recv", 10, false);
  b.recorder.entries.back().is_peer = true;
  b.recorder.entries.back().backend = kNccl;
  b.recorder_first = b.recorder;
  compute(b);
  use_nccl(b);
  const Verdict verdict = judge(picture_of({a, b, c}));
  CHECK(verdict.guilty == std::vector<int>{2});
  CHECK(verdict.confidence == Confidence::kGuess);
}

TEST_CASE("who waits for one that has ended is not accused with it by those that wait behind") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex), d;
  for (RankFacts* rank : {&a, &b}) enter(*rank, "all_reduce", 30, false);
  join(c, "0");
  join(c, "1", 1, "2-3");
  enter(c, "all_reduce", 31, false, "1");
  d.rank = 3;
  d.ended_with_0 = true;
  const Verdict verdict = judge(picture_of({a, b, c, d}));
  CHECK(verdict.guilty == std::vector<int>{3});
  CHECK(verdict.confidence == Confidence::kSure);
}

TEST_CASE("a member that has forgotten its group is not acquitted of what the others wait for there") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c;
  join(a, "1", 1, "0-2");
  enter(a, "broadcast", 30, false, "1");
  compute(b);
  c.rank = 2;
  c.ended_with_0 = true;
  const Verdict verdict = judge(picture_of({a, b, c}));
  CHECK(verdict.guilty == std::vector<int>{1, 2});
  CHECK(verdict.confidence == Confidence::kGuess);
}

TEST_CASE("a member of the group in which others wait that has ended is accused, whatever another one does") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex);
  join(a, "1", 1, "0,2");
  enter(a, "barrier", 30, false, "1");
  compute(b);
  c.pid = 0;
  c.ended_with_0 = true;
  c.recorder = c.recorder_first = {};
  const Verdict verdict = judge(picture_of({a, b, c}));
  CHECK(verdict.guilty == std::vector<int>{2});
  CHECK(verdict.confidence == Confidence::kSure);
}

TEST_CASE("where all that live wait in one collective they hang, whoever else has ended") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex);
  c.pid = 0;
  c.ended_with_0 = true;
  for (RankFacts* rank : {&a, &b}) {
    join(*rank, "1", 0, "0-1");
    enter(*rank, "all_reduce", 40, true, "1");
    enter(*rank, "all_reduce", 38, false, "1");
  }
  const Verdict verdict = judge(picture_of({a, b, c}));
  CHECK(verdict.health == Health::kStuck);
  CHECK(verdict.guilty.empty());
}

TEST_CASE("a node that was not seen, and to which no packet gets through, is what the others wait for") {
  // Rank 0 is one collective ahead: it had its part of the last one already.
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
  for (RankFacts* rank : {&a, &b}) enter(*rank, "all_reduce", 40, true);
  for (RankFacts* rank : {&a, &b}) enter(*rank, "all_reduce", 39, rank == &a);
  enter(a, "all_reduce", 38, false);
  b.connections.push_back(
      {.local = "10.0.0.2:4000", .remote = "10.0.0.3:5000", .unsent = 1000, .retransmits = 5});
  JobPicture picture = picture_of({a, b});
  picture.world_size = 3;
  picture.asks_others = true;
  picture.unseen = {"node c (10.0.0.3) has not answered within 6.0 s"};
  const Verdict verdict = judge(picture);
  CHECK(verdict.health == Health::kStuck);
  CHECK(verdict.guilty == std::vector<int>{2});
  CHECK(verdict.reason ==
        "the network to 10.0.0.3, where rank 2 must be, does not get packets through: 10.0.0.2:4000 of rank "
        "1 to "
        "10.0.0.3:5000: 1000 B not acknowledged after 5 attempts");
  CHECK(verdict.notes.back() == "2 of 3 ranks were seen: node c (10.0.0.3) has not answered within 6.0 s");
}

TEST_CASE("a node that was not seen is cut off as well where the launcher's words alone get no answer") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
  for (RankFacts* rank : {&a, &b}) enter(*rank, "all_reduce", 40, false);
  a.connections.push_back({.local = "10.0.0.1:4000", .remote = "10.0.0.3:5000"});
  JobPicture picture = picture_of({a, b});
  picture.world_size = 3;
  picture.asks_others = true;
  picture.unseen = {"node c (10.0.0.3) has not answered within 4.7 s"};
  picture.silent_nodes = {"node c (10.0.0.3)"};
  CHECK(judge(picture).guilty.empty());
  picture.ranks.front().launcher_connections.push_back(
      {.local = "10.0.0.1:29400", .remote = "10.0.0.3:5001", .unsent = 90, .retransmits = 3});
  const Verdict verdict = judge(picture);
  CHECK(verdict.guilty == std::vector<int>{2});
  CHECK(verdict.reason ==
        "the network to 10.0.0.3, where rank 2 must be, does not get packets through: 10.0.0.1:29400 of the "
        "launcher of rank 0 to 10.0.0.3:5001: 90 B not acknowledged after 3 attempts");
  // What ranks have lost says more: theirs may be another network.
  picture.ranks[1].connections.push_back(
      {.local = "10.1.0.2:40001", .remote = "10.1.0.3:40002", .unsent = 1, .retransmits = 1});
  CHECK(judge(picture).reason.starts_with("the network to 10.1.0.3, where rank 2 must be"));
  picture.ranks[1].connections.clear();
  // A packet to a node that has answered, and a node that has not, for another reason.
  picture.ranks.front().launcher_connections.front().remote = "10.0.0.2:5001";
  CHECK(judge(picture).guilty.empty());
  picture.world_size = 4;
  picture.unseen.push_back("node d (fe80::4) has not answered within 4.7 s");
  picture.silent_nodes.push_back("node d (fe80::4)");
  picture.ranks.front().launcher_connections = {
      {.local = "10.0.0.1:29400", .remote = "10.0.0.3:5001", .unsent = 90, .retransmits = 3},
      {.local = "10.0.0.1:29400", .remote = "[fe80::4]:5001", .unsent = 90, .retransmits = 3}};
  CHECK(judge(picture).reason.starts_with(
      "the network to 10.0.0.3 and fe80::4, where ranks 2-3 must be, does not get packets through"));
  picture.ranks.front().launcher_connections.pop_back();
  CHECK(judge(picture).guilty.empty());
}
