#include "worker/training/memory_checkpoints.h"

#include "tests/support/catch.h"

using ddprun::training::MemoryMark;
using ddprun::training::MemoryMarks;
using ddprun::training::newest_of_all;

namespace {

MemoryMark mark(const char* origin, std::int64_t step) { return {.origin = origin, .step = step}; }

std::optional<MemoryMark> of_copies(const std::vector<std::vector<MemoryMark>>& by_rank) {
  std::vector<MemoryMarks> marks;
  for (const auto& own : by_rank) marks.push_back({.own = own});
  return newest_of_all(marks, /*in_place=*/false);
}

std::optional<MemoryMark> in_place(const std::vector<MemoryMarks>& by_rank) {
  return newest_of_all(by_rank, /*in_place=*/true);
}

}  // namespace

TEST_CASE("of what ranks have in memory, the last step that all of them have counts") {
  const MemoryMark six = mark("a", 6), seven = mark("a", 7), eight = mark("a", 8);
  CHECK(of_copies({{seven, eight}}) == eight);
  CHECK(of_copies({{seven, eight}, {six, seven}}) == seven);
  CHECK(of_copies({{eight, seven}, {seven, eight}, {eight}}) == eight);
}

TEST_CASE("nothing counts that a rank has not, or has of another origin") {
  CHECK_FALSE(of_copies({{}}));
  CHECK_FALSE(of_copies({{mark("a", 7)}, {}}));
  CHECK_FALSE(of_copies({{mark("a", 7)}, {mark("a", 6)}}));
  CHECK_FALSE(of_copies({{mark("a", 7)}, {mark("b", 7)}}));
}

TEST_CASE("of a state that ranks keep in place, one that was not in its update has the half of all") {
  const MemoryMark seven = mark("a", 7), eight = mark("a", 8);
  // Rank 0 was killed in its update, the other one has ended its own.
  CHECK(in_place({{.own = {seven, eight}}, {.own = {seven, eight}, .whole = eight}}) == eight);
  // Rank 0 was killed before its backward, so that no rank could update anything.
  CHECK(in_place({{.own = {seven, mark("a", 6)}, .whole = seven}, {.own = {seven, eight}, .whole = seven}}) ==
        seven);
  // One has failed in an all-reduce that others could still end.
  CHECK(in_place({{.own = {seven, eight}, .whole = seven},
                  {.own = {eight, seven}, .whole = eight},
                  {.own = {eight, seven}}}) == eight);
  CHECK_FALSE(in_place({{.own = {seven, eight}}, {.own = {seven, eight}}}));
  CHECK_FALSE(in_place({{.own = {seven, eight}}, {.own = {seven, eight}, .whole = mark("b", 8)}}));
}
