#include "tests/support/catch.h"
#include "worker/runtime/ddp/divergence/disagreement.h"

namespace ddprun::runtime {
namespace {

using Catch::Matchers::Contains;
using Lists = std::vector<std::vector<TensorHash>>;

/// A tensor with these values, by rank, and one that is equal.
Lists one_tensor(const std::vector<std::uint64_t>& values) {
  Lists lists;
  for (const std::uint64_t value : values) lists.push_back({{value, value}, {9, 9}});
  return lists;
}

std::vector<int> differing(const std::vector<std::uint64_t>& values) {
  return judge_replicas(one_tensor(values))->differing;
}

Telling telling(std::size_t ranks) {
  Telling told{.step = 300, .last_equal_step = 200};
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    told.descriptions.emplace_back("parameter fc.weight (Float [10, 4])");
    told.world_ranks.push_back(static_cast<int>(rank));
  }
  return told;
}

TEST_CASE("equal lists have no disagreement") {
  CHECK_FALSE(judge_replicas(one_tensor({5, 5, 5})));
  CHECK_FALSE(judge_replicas(Lists(3)));
}

TEST_CASE("who is not of the majority differs, rank 0 too") {
  CHECK(differing({5, 5, 6, 5}) == std::vector<int>{2});
  CHECK(differing({6, 5, 5, 5}) == std::vector<int>{0});
  CHECK(differing({5, 6, 5, 7, 5}) == std::vector<int>{1, 3});
  CHECK(judge_replicas(one_tensor({5, 5, 6, 5}))->is_majority);
}

TEST_CASE(
    "of equally many the party of the lowest rank is believed, and the disagreement says that it is a "
    "guess") {
  CHECK(differing({5, 6}) == std::vector<int>{1});
  CHECK(differing({5, 6, 6, 5}) == std::vector<int>{1, 2});
  CHECK(differing({5, 6, 7}) == std::vector<int>{1, 2});
  CHECK(differing({5, 6, 6, 7, 7}) == std::vector<int>{0, 3, 4});
  CHECK_FALSE(judge_replicas(one_tensor({5, 6}))->is_majority);
  CHECK_FALSE(judge_replicas(one_tensor({5, 6, 6, 7, 7}))->is_majority);
}

TEST_CASE("the first tensor that differs decides, and all that do are counted") {
  const TensorHash a{1, 1};
  const TensorHash b{1, 2};
  const auto disagreement = judge_replicas({{a, a, b}, {a, b, a}, {a, a, b}});
  CHECK(disagreement->index == 1);
  CHECK(disagreement->differing == std::vector<int>{1});
  CHECK(disagreement->unequal == 2);
}

TEST_CASE("a rank that has more tensors, or fewer, differs") {
  const TensorHash a{1, 1};
  CHECK(judge_replicas({{a}, {a}, {a, a}})->differing == std::vector<int>{2});
  CHECK(judge_replicas({{a, a}, {a}, {a, a}})->differing == std::vector<int>{1});
}

TEST_CASE("the words name tensor, rank, steps and what to look for") {
  CHECK(explain(*judge_replicas(one_tensor({5, 5, 6, 5})), telling(4)) ==
        "the replicas have diverged: after step 300 parameter fc.weight (Float [10, 4]) on rank 2 differs "
        "from the other 3 ranks; all other tensors are equal; all were equal after step 200; look for broken "
        "hardware there, or for code that runs on some ranks only");
}

TEST_CASE("several tensors that differ are counted in the words, and a lone one is not") {
  CHECK_THAT(
      explain(*judge_replicas({{{1, 1}, {2, 2}, {3, 3}}, {{1, 1}, {5, 2}, {3, 4}}}), telling(2)),
      Contains("cannot be told; 2 of 3 tensors differ, this one first; all were equal after step 200"));
  CHECK_THAT(explain(*judge_replicas({{{1, 1}}, {{1, 2}}}), telling(2)),
             Contains("cannot be told; all were equal after"));
}

TEST_CASE("of two ranks it is said that either may be wrong") {
  Telling told = telling(2);
  told.last_equal_step.reset();
  CHECK(
      explain(*judge_replicas(one_tensor({5, 6})), told) ==
      "the replicas have diverged: after step 300 parameter fc.weight (Float [10, 4]) on rank 1 differs "
      "from rank 0, and which of them is right cannot be told; all other tensors are equal; look for broken "
      "hardware there, or for code that runs on some ranks only");
}

TEST_CASE("ranks are named as the world knows them, and tensors that are missing or of another kind") {
  Telling told = telling(3);
  told.world_ranks = {4, 5, 6};
  told.descriptions[1] = "parameter fc.weight (Half [10, 4])";
  CHECK_THAT(explain(*judge_replicas(one_tensor({5, 6, 5})), told),
             Contains("on rank 5 differs from the other 2 ranks: there it is parameter fc.weight (Half"));
  told.descriptions[1].clear();
  CHECK_THAT(explain(*judge_replicas(one_tensor({5, 6, 5})), told), Contains(": there is none;"));
  told.descriptions = {"", "parameter more (Float [1])", ""};
  const TensorHash a{1, 1};
  CHECK_THAT(explain(*judge_replicas({{a}, {a, a}, {a}}), told),
             Contains("parameter more (Float [1]) on rank 5 differs from the other 2 ranks: the others do "
                      "not have it;"));
}

}  // namespace
}  // namespace ddprun::runtime
