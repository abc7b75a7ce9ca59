#include "worker/training/memory_checkpoints.h"

#include "tests/support/catch.h"

using ddprun::training::MemoryMark;
using ddprun::training::newest_of_all;

TEST_CASE("of what ranks have in memory, the last step that all of them have counts") {
  CHECK(newest_of_all({{{"a", 7}, {"a", 8}}}) == MemoryMark{"a", 8});
  CHECK(newest_of_all({{{"a", 7}, {"a", 8}}, {{"a", 6}, {"a", 7}}}) == MemoryMark{"a", 7});
  CHECK(newest_of_all({{{"a", 8}, {"a", 7}}, {{"a", 7}, {"a", 8}}, {{"a", 8}}}) == MemoryMark{"a", 8});
}

TEST_CASE("nothing counts that a rank has not, or has of another origin") {
  CHECK_FALSE(newest_of_all({{}}));
  CHECK_FALSE(newest_of_all({{{"a", 7}}, {}}));
  CHECK_FALSE(newest_of_all({{{"a", 7}}, {{"a", 6}}}));
  CHECK_FALSE(newest_of_all({{{"a", 7}}, {{"b", 7}}}));
}
