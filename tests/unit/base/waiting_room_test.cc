#include "rendezvous/base/waiting_room.h"

#include "tests/support/catch.h"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

TimePoint at(Duration since_start) { return TimePoint() + since_start; }

}  // namespace

TEST_CASE("waiting room: each has its time from the moment it came") {
  WaitingRoom<int> room(10s);
  CHECK_FALSE(room.next_deadline());
  room.enter(1, at(0s));
  room.enter(2, at(3s));
  CHECK(room.next_deadline() == at(10s));
  CHECK(room.pop_overdue(at(9s)).empty());
  CHECK(room.pop_overdue(at(10s)) == std::vector{1});
  CHECK(room.next_deadline() == at(13s));
  CHECK(room.pop_overdue(at(1h)) == std::vector{2});
  CHECK(room.size() == 0);
}

TEST_CASE("waiting room: who has introduced itself is not asked again") {
  WaitingRoom<int> room(10s);
  room.enter(1, at(0s));
  room.enter(2, at(1s));
  room.leave(1);
  room.leave(7);
  CHECK(room.pop_overdue(at(1h)) == std::vector{2});
}

TEST_CASE("waiting room: the one that has waited longest makes room, but not before it had time to speak") {
  WaitingRoom<int> room(10s);
  CHECK_FALSE(room.pop_oldest(at(0s), 0s));
  room.enter(1, at(0s));
  room.enter(2, at(1s));
  CHECK_FALSE(room.pop_oldest(at(1s), 2s));
  CHECK(room.pop_oldest(at(2s), 2s) == 1);
  CHECK_FALSE(room.pop_oldest(at(2s), 2s));
  CHECK(room.pop_oldest(at(3s), 2s) == 2);
}
