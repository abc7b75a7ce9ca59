#include "launcher/cleanup/guard_board.h"

#include "tests/support/catch.h"

#include <sys/wait.h>
#include <unistd.h>

using namespace ddprun::launcher;
using ddprun::BootClock;
using ddprun::TimePoint;

namespace {

GuardBoard make_board(std::size_t workers) {
  auto board = GuardBoard::make(workers);
  REQUIRE(board.has_value());
  return std::move(*board);
}

}  // namespace

TEST_CASE("a new board has no lease, no sessions and no end") {
  const GuardBoard board = make_board(2);
  CHECK(board.lease() == TimePoint::max());
  CHECK(board.sessions().empty());
  CHECK(board.guard(0) == 0);
  CHECK_FALSE(board.is_over());
  CHECK_FALSE(board.is_swept());
}

TEST_CASE("a session is on the board until it has ended, and its place is free again") {
  GuardBoard board = make_board(2);
  for (int round = 0; round < 1000; ++round) {
    *board.free_session() = 4711 + round;
    *board.free_session() = 17;
    CHECK(board.sessions() == std::set<pid_t>{17, 4711 + round});
    board.end_session(4711 + round);
    board.end_session(17);
    CHECK(board.sessions().empty());
  }
}

TEST_CASE("who may have made something in /dev/shm is on the board until that is said to be removed") {
  GuardBoard board = make_board(2);
  *board.free_session() = 4711;
  *board.free_session() = 17;
  board.end_session(17);
  board.note_ended(23);
  CHECK(board.makers() == std::set<pid_t>{17, 23, 4711});
  board.forget_ended();
  CHECK(board.makers() == std::set<pid_t>{4711});
}

TEST_CASE("of more than it has room for, the board remembers those who ended last, and every worker") {
  GuardBoard board = make_board(1);
  *board.free_session() = 1'000'000;
  board.end_session(1'000'000);
  constexpr pid_t kRoom = GuardBoard::kMostEnded;
  for (pid_t pid = 1; pid <= 2 * kRoom; ++pid) board.note_ended(pid);
  const std::set<pid_t> makers = board.makers();
  CHECK(makers.size() == kRoom + 1);
  CHECK(*makers.begin() == kRoom + 1);
  CHECK(*makers.rbegin() == 1'000'000);
}

TEST_CASE("what one process writes, the others read, however long they have not looked") {
  GuardBoard board = make_board(1);
  const TimePoint until = BootClock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    *board.free_session() = ::getpid();
    for (int i = 0; i < 100000; ++i) board.set_lease(TimePoint::max());
    board.set_lease(until);
    ::_exit(0);
  }
  REQUIRE(child > 0);
  ::waitpid(child, nullptr, 0);
  CHECK(board.sessions() == std::set<pid_t>{child});
  CHECK(board.lease() == until);
}
