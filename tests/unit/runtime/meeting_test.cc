#include "worker/runtime/process/drain/meeting.h"

#include "tests/support/catch.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <thread>
#include <vector>

namespace ddprun::runtime {
namespace {

TEST_CASE("ranks that meet learn how far apart they are") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::optional<Attendance>> seen(3);
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        const std::int64_t step = rank == 1 ? 57 : 12;
        seen[static_cast<std::size_t>(rank)] = meet(*store, "first", rank, 3, step, std::chrono::seconds(30));
      });
    }
  }
  for (const auto& attendance : seen) {
    REQUIRE(attendance.has_value());
    CHECK(attendance->first == 12);
    CHECK(attendance->last == 57);
  }
}

TEST_CASE("a meeting to which some do not come ends with the time-out") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  CHECK_FALSE(meet(*store, "first", 0, 2, 1, std::chrono::milliseconds(50)).has_value());
}

TEST_CASE("who comes to a meeting that others have left hears the same as they") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const std::chrono::milliseconds timeout(10);
  CHECK_FALSE(meet(*store, "first", 0, 2, 7, timeout).has_value());
  CHECK_FALSE(meet(*store, "first", 1, 2, 7, timeout).has_value());
}

}  // namespace
}  // namespace ddprun::runtime
