#include "launcher/why/look/look.h"
#include "launcher/why/verdict/verdict.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher_why/made_pictures.h"

#include <sys/syscall.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

using namespace ddprun::launcher::why;

namespace {

void call_in_python(RankFacts& facts, const std::string& function, const std::string& file) {
  facts.python = {{.tid = facts.pid, .name = "MainThread", .owns_gil = true, .frames = {}}};
  facts.python[0].frames = {{function, file, 1, {}}, {"main", "/job/train.py", 7, "step()"}};
}

}  // namespace

TEST_CASE("what a group does over gloo and over NCCL is counted apart") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex);
  for (RankFacts* rank : {&a, &b, &c}) {
    for (int i = 0; i < 3; ++i) enter(*rank, "all_reduce", 70 - i, true, "0", "nccl");
    for (int i = 0; i < 9; ++i) enter(*rank, "broadcast", 60 - i, true, "0", "gloo");
    join(*rank, "0", 9);
    rank->recorder.memberships.back().newest["nccl"] = 3;
  }
  enter(a, "all_reduce", 38, false, "0", "nccl");
  enter(c, "all_reduce", 38, false, "0", "nccl");
  const Verdict stuck = judge(picture_of({a, b, c}));
  CHECK(stuck.health == Health::kStuck);
  CHECK(stuck.guilty == std::vector<int>{1});
  CHECK(stuck.reason.find("all_reduce #4") != std::string::npos);
}

TEST_CASE("where all have begun a collective on their GPUs, nobody is accused, and the page says so") {
  std::vector<RankFacts> ranks = {rank_in(0, -1), rank_in(1, -1)};
  for (RankFacts& rank : ranks) {
    for (int i = 0; i < 5; ++i) enter(rank, "all_reduce", 36 - i, true, "0", "nccl");
    enter(rank, "all_reduce", 30, false, "0", "nccl");
    compute(rank);
    use_nccl(rank);
  }
  call_in_python(ranks[0], "synchronize", "/venv/site-packages/torch/cuda/__init__.py");
  const Verdict verdict = judge(picture_of(ranks));
  CHECK(verdict.health == Health::kFine);
  CHECK(verdict.guilty.empty());
  REQUIRE(verdict.notes.size() == 1);
  CHECK(verdict.notes[0].find("ranks 0-1 have begun all_reduce #6, and for 30.0 s no GPU has ended it") == 0);
  CHECK(verdict.ranks[0].activity.words == "waits for the GPU (100 % of a CPU)");
  CHECK(verdict.ranks[1].activity.words == "computes or waits for the GPU (100 % of a CPU)");
}

TEST_CASE("ranks that spin in groups over NCCL in different orders are stuck, whatever stacks show") {
  RankFacts a = rank_in(0, -1), b = rank_in(1, -1);
  for (RankFacts* rank : {&a, &b}) {
    for (const char* const group : {"0", "1"}) {
      enter(*rank, "all_reduce", 32, true, group, "nccl");
      rank->recorder.memberships.push_back({.group = group, .newest = {{"nccl", 1}}});
    }
    compute(*rank);
    use_nccl(*rank);
  }
  enter(a, "all_reduce", 30, false, "0", "nccl");
  a.recorder.memberships[0].newest["nccl"] = 2;
  enter(b, "all_reduce", 30, false, "1", "nccl");
  b.recorder.memberships[1].newest["nccl"] = 2;
  CHECK(judge(picture_of({a, b})).health == Health::kStuck);
}

TEST_CASE("a rank whose other thread computes does not spin in NCCL") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_clock_nanosleep);
  for (RankFacts* rank : {&a, &b}) use_nccl(*rank);
  a.first.threads.push_back({.tid = 1, .name = "loader", .state = "R"});
  a.second.threads.push_back({.tid = 1, .name = "loader", .state = "R", .cpu_s = 1});
  call_in_python(a, "all_reduce", "/venv/site-packages/torch/distributed/distributed_c10d.py");
  CHECK(judge(picture_of({a, b})).ranks[0].activity.doing == Doing::kComputes);
}

TEST_CASE("messages between ranks with NCCL are progress where they are more than signs of life") {
  const auto judged = [](std::uint64_t came) {
    RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_futex);
    for (RankFacts* rank : {&a, &b, &c}) {
      enter(*rank, "barrier", 32, true);
      use_nccl(*rank);
    }
    enter(c, "barrier", 30, false);
    a.connections = {{.local = "10.0.0.1:1", .remote = "10.0.0.2:2", .came = came}};
    b.connections = {{.local = "10.0.0.2:2", .remote = "10.0.0.1:1", .came = came}};
    return judge(picture_of({a, b, c})).health;
  };
  CHECK(judged(4000) == Health::kFine);
  CHECK(judged(100) == Health::kStuck);
}

TEST_CASE("who queues its collectives over NCCL last is not called slow") {
  const auto judged = [](const std::string& backend) {
    RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
    for (int i = 0; i < 10; ++i) {
      enter(a, "all_reduce", 10 - i, true, "0", backend);
      enter(b, "all_reduce", 9.5 - i, true, "0", backend);
    }
    return judge(picture_of({a, b})).health;
  };
  CHECK(judged("gloo") == Health::kSlow);
  CHECK(judged("nccl") == Health::kFine);
}

TEST_CASE("ranks of a node with an older ddprun, which tells no backends, are in the same groups") {
  std::vector<RankFacts> ranks = {rank_in(0, SYS_futex), rank_in(1, SYS_futex)};
  for (RankFacts& rank : ranks) {
    const std::string backend = rank.rank == 0 ? "gloo" : "";
    enter(rank, "all_reduce", 32, true, "0", backend);
    enter(rank, "all_reduce", 30, false, "0", backend);
  }
  CHECK(judge(picture_of(ranks)).guilty.empty());
}

TEST_CASE("a group that is used over gloo and over NCCL in different orders is told by its backends") {
  RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex);
  for (RankFacts* rank : {&a, &b}) {
    enter(*rank, "all_reduce", 32, true, "0", "nccl");
    use_nccl(*rank);
    join(*rank, "0", 0);
    rank->recorder.memberships.back().newest["nccl"] = rank == &a ? 2 : 1;
  }
  enter(a, "all_reduce", 30, false, "0", "nccl");
  enter(b, "barrier", 30, false, "0", "gloo");
  CHECK(judge(picture_of({a, b})).reason ==
        "the ranks wait for each other over different backends, which they use in different orders: rank 1 "
        "waits "
        "in barrier #1 over gloo, rank 0 waits in all_reduce #2 over nccl");
}

TEST_CASE("who spins until NCCL has connected a group waits for the other ranks of it") {
  std::vector<RankFacts> ranks = {rank_in(0, -1), rank_in(1, SYS_clock_nanosleep), rank_in(2, SYS_futex)};
  for (RankFacts& rank : ranks) {
    for (int i = 0; i < 5; ++i) enter(rank, "all_reduce", 36 - i, true, "0", "nccl");
    use_nccl(rank);
  }
  enter(ranks[2], "all_reduce", 30, false, "0", "nccl");
  compute(ranks[0]);
  call_in_python(ranks[0], "all_reduce", "/venv/site-packages/torch/distributed/distributed_c10d.py");
  const Verdict verdict = judge(picture_of(ranks));
  CHECK(verdict.health == Health::kStuck);
  CHECK(verdict.guilty == std::vector<int>{1});
}

TEST_CASE("whoever makes the first collective over NCCL, who spins until it is connected waits") {
  const std::string torch = "/venv/site-packages/torch/";
  const auto judged = [](const std::function<void(RankFacts&)>& is_connecting) {
    std::vector<RankFacts> ranks = {rank_in(0, -1), rank_in(1, SYS_openat), rank_in(2, -1)};
    for (RankFacts& rank : ranks) {
      use_nccl(rank);
      rank.quiet_s = 30;
      if (rank.rank == 1) continue;
      compute(rank);
      is_connecting(rank);
    }
    return judge(picture_of(ranks));
  };
  const Verdict by_python = judged([&](RankFacts& rank) {
    call_in_python(rank, "_verify_param_shape_across_processes", torch + "distributed/utils.py");
  });
  CHECK(by_python.health == Health::kStuck);
  CHECK(by_python.guilty == std::vector<int>{1});
  const Verdict by_stack = judged([](RankFacts& rank) {
    rank.native[0].functions = {"sched_yield", "?", "ncclCommInitRankConfig", "c10d::NCCLComm::create"};
  });
  CHECK(by_stack.guilty == std::vector<int>{1});
  CHECK(by_stack.ranks[0].activity.words.find("until NCCL has connected the ranks") != std::string::npos);
}

TEST_CASE("a stage that does nothing is named where the others spin for its messages") {
  std::vector<RankFacts> ranks = {rank_in(0, -1), rank_in(1, -1), rank_in(2, SYS_openat), rank_in(3, -1)};
  for (RankFacts& rank : ranks) {
    use_nccl(rank);
    enter(rank, "all_reduce", 50, true, "0", "nccl");
    if (rank.rank == 2) continue;
    enter(rank, "batch_isend_irecv", 40, false, "0", "nccl");
    rank.recorder.entries.back().is_peer = true;
    rank.recorder.entries.back().sequence = 1;
    rank.recorder_first = rank.recorder;
    compute(rank);
  }
  CHECK(judge(picture_of(ranks)).guilty.empty());  // they may have begun their messages, and compute
  for (RankFacts& rank : ranks) {
    if (rank.rank != 2) rank.native[0].functions = {"cuStreamSynchronize", "cudaStreamSynchronize"};
  }
  CHECK(judge(picture_of(ranks)).guilty == std::vector<int>{2});
  // One that spins elsewhere, to queue more say, is none the less not to blame.
  ranks[1].native[0].functions = {"cudaLaunchKernel"};
  CHECK(judge(picture_of(ranks)).guilty == std::vector<int>{2});
  CHECK(judge(picture_of(ranks)).health == Health::kStuck);
  ranks[3].native[0].functions = {"cudaLaunchKernel"};
  ranks[0].native[0].functions = {"cudaLaunchKernel"};
  CHECK(judge(picture_of(ranks)).guilty.empty());
  for (RankFacts& rank : ranks) {
    for (Collective& entry : rank.recorder.entries) entry.created_ns -= 60 * kSecond;
    rank.recorder_first = rank.recorder;
  }
  CHECK(judge(picture_of(ranks)).guilty == std::vector<int>{2});
}

TEST_CASE("who spins in a message over NCCL is not accused beside one that does nothing") {
  for (const std::string backend : {"gloo", "nccl"}) {
    RankFacts a = rank_in(0, SYS_futex), b = rank_in(1, SYS_futex), c = rank_in(2, SYS_clock_nanosleep);
    for (RankFacts* rank : {&a, &b, &c}) enter(*rank, "all_reduce", 70, true, "0", backend);
    enter(a, "all_reduce", 50, false, "0", backend);
    enter(b, "recv", 50, false, "0", backend);
    b.recorder.entries.back().is_peer = true;
    b.recorder.entries.back().sequence = 1;
    b.recorder_first = b.recorder;
    if (backend == "nccl") {
      for (RankFacts* rank : {&a, &b, &c}) use_nccl(*rank);
      for (RankFacts* rank : {&a, &b}) compute(*rank);
    }
    CAPTURE(backend);
    const Verdict verdict = judge(picture_of({a, b, c}));
    CHECK(verdict.health == Health::kStuck);
    CHECK(verdict.guilty == std::vector<int>{2});
    // Nobody else is there.
    CHECK(judge(picture_of({a, b})).guilty == std::vector<int>{1});
  }
}

TEST_CASE(
    "where all spin over NCCL, one that has ended may be the one, or for a while a GPU that still computes") {
  for (const double waited : {20.0, 90.0, 400.0}) {
    RankFacts a = rank_in(0, -1), b = rank_in(1, -1);
    enter(a, "all_reduce", waited + 10, true, "0", "nccl");
    enter(a, "all_reduce", waited, false, "0", "nccl");
    use_nccl(a);
    compute(a);
    b.pid = 0;
    b.ended_with_0 = true;
    b.recorder = b.recorder_first = {};
    const Verdict elsewhere = judge(picture_of({a, b}));
    CHECK(elsewhere.confidence == Confidence::kGuess);
    CHECK(elsewhere.health == (waited < 300 ? Health::kLate : Health::kStuck));
    a.native[0].functions = {"cuStreamSynchronize", "cudaStreamSynchronize"};
    const Verdict verdict = judge(picture_of({a, b}));
    CHECK(verdict.health == (waited < 60 ? Health::kLate : Health::kStuck));
    CHECK(verdict.guilty == std::vector<int>{1});
    CHECK(verdict.confidence == (waited < 60 ? Confidence::kGuess : Confidence::kLikely));
  }
}

TEST_CASE("who spins over NCCL is not accused with the one for whom it waits, which waits for a key") {
  RankFacts a = rank_in(0, -1), b = rank_in(1, SYS_poll), c = rank_in(2, -1);
  for (RankFacts* rank : {&a, &b, &c}) {
    enter(*rank, "all_reduce", 60, true, "0", "nccl");
    use_nccl(*rank);
  }
  for (RankFacts* rank : {&a, &c}) {
    enter(*rank, "all_reduce", 50, false, "0", "nccl");
    compute(*rank);
  }
  b.object.is_store = true;
  const Verdict verdict = judge(picture_of({a, b, c}));
  CHECK(verdict.health == Health::kStuck);
  CHECK(verdict.guilty == std::vector<int>{1});
  CHECK(verdict.waiting == std::vector<int>{0, 2});
}

TEST_CASE("who spins in a collective over NCCL waits for a rank that was not read") {
  RankFacts a = rank_in(0, -1), b = rank_in(1, SYS_futex);
  enter(a, "all_reduce", 60, true, "0", "nccl");
  enter(a, "all_reduce", 50, false, "0", "nccl");
  use_nccl(a);
  compute(a);
  b.first = b.second = {};
  b.recorder = b.recorder_first = {};
  const Verdict verdict = judge(picture_of({a, b}));
  CHECK(verdict.health == Health::kUnknown);
  CHECK(verdict.waiting == std::vector<int>{0});
}

TEST_CASE("where torch records elsewhere what NCCL does, the page says so, and knows nothing of it") {
  RankFacts a = rank_in(0, -1), b = rank_in(1, SYS_read);
  compute(a);
  for (RankFacts* rank : {&a, &b}) {
    use_nccl(*rank);
    note_what_is_not_recorded(*rank);
    CHECK(rank->recorder.problem.empty());
    rank->second.threads.push_back({.tid = 99, .name = "pt_nccl2_heartbt"});
    note_what_is_not_recorded(*rank);
    CHECK_FALSE(rank->recorder.is_there);
  }
  const Verdict verdict = judge(picture_of({a, b}));
  REQUIRE(verdict.notes.size() == 1);
  CHECK(verdict.notes[0].find("TORCH_DIST_USE_NCCL2=0") != std::string::npos);
}
