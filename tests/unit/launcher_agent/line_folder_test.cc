#include "launcher/output/line_folder.h"

#include "tests/support/catch.h"
#include "tests/support/fake_clock.h"

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

struct Fixture {
  testing::FakeClock clock;
  LineFolder folder{{Rank(0), Rank(1), Rank(2), Rank(3)}, std::chrono::milliseconds(500)};

  void add(int rank, std::string_view line) { folder.add(Rank(rank), line, clock.now()); }
  void add_all(std::string_view line) {
    for (const int rank : {0, 1, 2, 3}) add(rank, line);
  }
  std::string ready() { return folder.pop_ready(clock.now()); }
};

}  // namespace

TEST_CASE("ranks are written as ranges") {
  CHECK(rank_ranges({Rank(0), Rank(1), Rank(2)}) == "0-2");
  CHECK(rank_ranges({Rank(0), Rank(2), Rank(3), Rank(9)}) == "0,2-3,9");
  CHECK(rank_ranges({Rank(5)}) == "5");
}

TEST_CASE_METHOD(Fixture, "a line that all ranks print is shown once, as soon as the last has printed it") {
  add(0, "epoch 1");
  add(2, "epoch 1");
  add(1, "epoch 1");
  CHECK(ready().empty());
  add(3, "epoch 1");
  CHECK(ready() == "[0-3] epoch 1\n");
}

TEST_CASE_METHOD(Fixture, "a line that only some print is shown when the window is over") {
  add(1, "warning");
  add(3, "warning");
  clock.advance(std::chrono::milliseconds(499));
  CHECK(ready().empty());
  clock.advance(std::chrono::milliseconds(1));
  CHECK(ready() == "[1,3] warning\n");
}

TEST_CASE_METHOD(Fixture, "the lines of one rank never overtake each other") {
  add(0, "mine");
  add_all("ours");
  CHECK(ready().empty());
  clock.advance(std::chrono::milliseconds(500));
  CHECK(ready() == "[0] mine\n[0-3] ours\n");
}

TEST_CASE_METHOD(Fixture, "a rank that repeats a line is not folded with itself") {
  add(0, "step");
  add(0, "step");
  add(1, "step");
  CHECK(folder.pop_all() == "[0-1] step\n[0] step\n");
}

TEST_CASE_METHOD(Fixture, "the next deadline is that of the oldest line") {
  CHECK_FALSE(folder.next_deadline().has_value());
  const TimePoint first = clock.now();
  add(0, "a");
  clock.advance(std::chrono::milliseconds(100));
  add(1, "b");
  CHECK(folder.next_deadline() == first + std::chrono::milliseconds(500));
}
