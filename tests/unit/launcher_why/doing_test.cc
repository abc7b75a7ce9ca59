#include "launcher/why/verdict/doing.h"

#include "tests/support/catch.h"
#include "tests/unit/launcher_why/made_pictures.h"

#include <sys/syscall.h>

#include <string>

using namespace ddprun::launcher::why;

TEST_CASE("a child that computes, and from which a thread of the rank reads, is what the rank waits for") {
  RankFacts a = rank_in(0, SYS_futex);
  a.children.push_back({.pid = 7, .name = "python3", .state = "R", .is_busy = true});
  CHECK(activity_of(a).doing == Doing::kBlocked);
  a.children.front().feeds = true;
  CHECK(activity_of(a).doing == Doing::kMoves);
}

TEST_CASE("a server from which something came a moment ago is slow, and one that is silent is not") {
  RankFacts a = rank_in(0, SYS_recvfrom);
  a.object.path = "socket:[4711]";
  a.object.silent_s = 60;
  CHECK(activity_of(a).doing == Doing::kBlocked);
  a.object.silent_s = 5;
  CHECK(activity_of(a).doing == Doing::kMoves);
}

TEST_CASE("who waits for others to make a group is not said to wait in init_process_group") {
  for (const std::string maker : {"new_group", "init_process_group"}) {
    RankFacts a = rank_in(0, SYS_poll);
    const std::string torch = "/venv/site-packages/torch/distributed/distributed_c10d.py";
    a.object.is_store = true;
    a.python = {{.tid = a.pid, .name = "MainThread", .owns_gil = false, .frames = {}}};
    a.python[0].frames = {{"_new_process_group_helper", torch, 1, {}}, {maker, torch, 2, {}}};
    CHECK(activity_of(a).words == "waits for the other ranks to meet (" + maker + ")");
  }
}
