#include "worker/training/first_failure.h"

#include "tests/support/catch.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>

using namespace ddprun::training;

TEST_CASE("of several ranks that fail the first one is heard") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  tell_failure(*store, 2, "cannot write metrics.jsonl: No space left on device");
  tell_failure(*store, 0, "later");
  const auto first = hear_failure(*store, std::chrono::seconds(10));
  REQUIRE(first.has_value());
  CHECK(first->rank == 2);
  CHECK(first->message == "cannot write metrics.jsonl: No space left on device");
}

TEST_CASE("a rank that was killed is not waited for") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  CHECK_FALSE(hear_failure(*store, std::chrono::milliseconds(20)).has_value());
}
