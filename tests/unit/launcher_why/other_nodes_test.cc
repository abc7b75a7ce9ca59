#include "launcher/why/desk/other_nodes.h"

#include "launcher/why/desk/desk.h"
#include "launcher/why/facts/facts_json.h"
#include "launcher/why/facts/fit.h"
#include "tests/support/catch.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>

using ddprun::launcher::LookAnswer;
using namespace ddprun::launcher::why;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kWaited{6000};

LookAnswer asked(std::uint64_t from, const std::string& name) { return {.from = from, .node = name}; }
LookAnswer all_asked() { return {.is_last = true}; }

RankFacts facts_of(int rank) {
  RankFacts facts{.rank = rank, .pid = 100 + rank, .host = "b"};
  for (int i = 0; i < 60; ++i)
    facts.recorder.entries.push_back(
        {.group = "0", .sequence = i, .operation = "all_reduce", .sizes = {1000}});
  for (int i = 0; i < 100; ++i) {
    facts.second.threads.push_back({.tid = 100 + rank + i, .name = "thread", .state = "S"});
    facts.native.push_back(
        {.tid = i, .name = "thread", .functions = std::vector<std::string>(40, "function")});
  }
  facts.first = facts.second;
  return facts;
}

}  // namespace

TEST_CASE("the answer of a node comes in parts, which may end anywhere") {
  OtherNodes nodes;
  nodes.take(asked(2, "b"));
  nodes.take(all_asked());
  CHECK_FALSE(nodes.is_over());
  const std::string text = to_text(RankFacts{.rank = 3, .host = "bär"}) + "\n";
  nodes.take({.from = 2, .node = "b", .text = text.substr(0, 10)});
  nodes.take({.from = 2, .node = "b", .text = text.substr(10)});
  nodes.take({.from = 2, .node = "b", .is_last = true});
  CHECK(nodes.is_over());
  JobPicture picture{.world_size = 6};
  picture.ranks.push_back({.rank = 5});
  nodes.add_to(picture, kWaited);
  REQUIRE(picture.ranks.size() == 2);
  CHECK(picture.ranks.front().rank == 3);
  CHECK(picture.ranks.front().host == "bär");
  CHECK(picture.unseen.empty());
}

TEST_CASE("times of another host are told from its own now, and a rank is taken once") {
  OtherNodes nodes;
  nodes.take(asked(2, "b"));
  nodes.take(all_asked());
  RankFacts facts{.rank = 1, .pid = 7, .host = "b"};
  facts.recorder.entries.push_back({.group = "0", .sequence = 1, .created_ns = -5'000'000'000});
  RankFacts spare{.rank = 0, .host = "c"};
  RankFacts stranger{.rank = 2, .host = "c"};
  nodes.take({.from = 2,
              .text = to_text(facts) + "\n" + to_text(spare) + "\n" + to_text(stranger) + "\n",
              .is_last = true});
  JobPicture picture{.world_size = 2, .taken_ns = 1'700'000'000'000'000'000};
  picture.ranks.push_back({.rank = 0, .pid = 3, .host = "a"});
  nodes.add_to(picture, kWaited);
  REQUIRE(picture.ranks.size() == 2);
  CHECK(picture.ranks[0].host == "a");
  CHECK(picture.ranks[1].recorder.entries.front().created_ns == picture.taken_ns - 5'000'000'000);
}

TEST_CASE("a node that does not answer is named, and so is a launcher that does not") {
  OtherNodes nodes;
  nodes.take(asked(2, "node b (10.0.0.2)"));
  nodes.take(asked(3, "node c (10.0.0.3)"));
  nodes.take(all_asked());
  nodes.take({.from = 3, .node = "node c (10.0.0.3)", .is_last = true});
  JobPicture picture;
  nodes.add_to(picture, kWaited);
  CHECK(picture.unseen == std::vector<std::string>{"node b (10.0.0.2) has not answered within 6.0 s",
                                                   "node c (10.0.0.3) has told of no rank that runs"});
  JobPicture alone{.launcher = 7};
  OtherNodes().add_to(alone, kWaited);
  CHECK(alone.unseen.front() ==
        "the launcher here (pid 7) has passed on no answer within 6.0 s: it or its coordinator stands still, "
        "or "
        "it is of an older ddprun");
}

TEST_CASE("a node that has told of some of its ranks, and one that is looked at by another, are named") {
  OtherNodes nodes;
  nodes.take(asked(2, "node b (10.0.0.2)"));
  nodes.take(asked(3, "node c (10.0.0.3)"));
  nodes.take(all_asked());
  nodes.take(
      {.from = 2, .node = "node b (10.0.0.2)", .text = to_text(RankFacts{.rank = 1, .pid = 7}) + "\n"});
  nodes.take({.from = 3, .node = "node c (10.0.0.3)", .text = std::string(kBusyAnswer), .is_last = true});
  JobPicture picture{.world_size = 4};
  nodes.add_to(picture, kWaited);
  CHECK(picture.ranks.size() == 1);
  CHECK(picture.unseen ==
        std::vector<std::string>{"node b (10.0.0.2) has not answered within 6.0 s",
                                 "node c (10.0.0.3) was being looked at for others: ask again"});
}

TEST_CASE("a part arrives at ddprun why as the launcher had it") {
  const auto part =
      parse_look_answer(to_text(LookAnswer{.from = 4, .node = "b", .text = "{\"rank\"", .is_last = true}));
  REQUIRE(part.has_value());
  CHECK(part->from == 4);
  CHECK(part->node == "b");
  CHECK(part->text == "{\"rank\"");
  CHECK(part->is_last);
  CHECK_FALSE(parse_look_answer("{}").has_value());
}

TEST_CASE("facts that do not fit lose what tells least, and keep their newest collectives") {
  const RankFacts whole = facts_of(1);
  CHECK(to_text(fit(whole, 1 << 20)) == to_text(whole));
  for (const std::size_t most : {40'000, 20'000, 8'000, 4'000, 2'000}) {
    const RankFacts fitted = fit(whole, most);
    CAPTURE(most);
    CHECK(to_text(fitted).size() <= most);
    CHECK_FALSE(fitted.problem.empty());
    REQUIRE_FALSE(fitted.recorder.entries.empty());
    CHECK(fitted.recorder.entries.back().sequence == 59);
    CHECK_FALSE(fitted.second.threads.empty());
  }
  CHECK(fit(whole, 100).rank == 1);
}

TEST_CASE("of many threads the main one, the busiest and one of NCCL's stay the longest") {
  RankFacts whole = facts_of(1);
  for (ProcessLook* const look : {&whole.first, &whole.second})
    look->threads.push_back({.tid = 4711, .name = "pt_nccl_watchdg", .state = "S"});
  whole.second.threads[90].cpu_s = 1;
  std::set<int> expected{whole.second.threads.front().tid, whole.second.threads[90].tid, 4711};
  for (const std::size_t most : {20'000, 8'000, 4'000}) {
    const RankFacts fitted = fit(whole, most);
    CAPTURE(most);
    CHECK(to_text(fitted).size() <= most);
    for (const ProcessLook* const look : {&fitted.first, &fitted.second}) {
      CHECK(look->threads.size() < 100);
      CHECK(look->threads.front().tid == whole.second.threads.front().tid);
      std::set<int> tids;
      for (const ThreadLook& thread : look->threads) tids.insert(thread.tid);
      CHECK(std::includes(tids.begin(), tids.end(), expected.begin(), expected.end()));
    }
  }
}
