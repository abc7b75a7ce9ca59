#include "launcher/agent/blame.h"

#include "tests/support/catch.h"

#include <csignal>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint kStart{100s};

/// Workers by local rank; the first one has rank 4.
struct Workers {
  std::vector<SupervisedWorker> all;

  SupervisedWorker& add() {
    const int index = static_cast<int>(all.size());
    SupervisedWorker& worker = all.emplace_back();
    worker.rank = Rank(4 + index);
    worker.pid = 700 + index;
    worker.is_alive = true;
    worker.started_at = kStart;
    return worker;
  }
  Workers& runs() {
    add();
    return *this;
  }
  Workers& ends(Duration after, ExitStatus status, Ending ending = {}) {
    SupervisedWorker& worker = add();
    worker.is_alive = false;
    worker.status = status;
    worker.ending = std::move(ending);
    worker.ended_at = kStart + after;
    return *this;
  }
  Workers& suspended() {
    all.back().was_suspended = true;
    return *this;
  }
  Workers& leaves(Duration after) { return ends(after, ExitStatus::exited(0)); }
  Workers& stopped_with(int signal) {
    all.back().stopped_with = signal;
    return *this;
  }
};

Ending symptom() { return {.weight = Weight::kSymptom, .symptom = "lost a peer"}; }
Ending silence() { return {.weight = Weight::kSymptom, .symptom = "waited in vain", .waited_in_vain = true}; }
Ending doubt() { return {.weight = Weight::kDoubtful, .symptom = "lost a connection"}; }
Ending own(std::string error, std::optional<TimePoint> failed_at = {}) {
  return {.error = std::move(error), .is_own_failure = true, .failed_at = failed_at};
}
const ExitStatus kOne = ExitStatus::exited(1);
const ExitStatus kTerminated = ExitStatus::killed(SIGTERM);

}  // namespace

TEST_CASE("of two that failed, who failed first is to blame") {
  const Workers workers = Workers().ends(2s, kOne).runs().ends(1s, ExitStatus::exited(7));
  const Blame found = blame(workers.all);
  CHECK(found.guilty == LocalRank(2));
  CHECK(found.why == "rank 6 (pid 702) exited with code 7 after 1.0 s");
  CHECK(found.exit_code == 7);
}

TEST_CASE("who failed first is told by what each says of its time, if that was before its end") {
  const Workers early = Workers().ends(2s, kOne).ends(3s, kOne, own("ValueError: x", kStart + 1s));
  CHECK(blame(early.all).guilty == LocalRank(1));
  const Workers late = Workers().ends(2s, kOne).ends(1s, kOne, own("ValueError: x", kStart + 9s));
  CHECK(blame(late.all).guilty == LocalRank(1));
}

TEST_CASE("a cause is before a doubt, and a doubt before a symptom") {
  CHECK(blame(Workers().ends(1s, kOne, symptom()).ends(2s, kOne, doubt()).ends(3s, kOne).all).guilty ==
        LocalRank(2));
  CHECK(blame(Workers().ends(1s, kOne, symptom()).ends(2s, kOne, doubt()).all).guilty == LocalRank(1));
}

TEST_CASE("of symptoms alone who left last before the first of them is to blame, with its exit code") {
  const Workers workers =
      Workers().leaves(1s).leaves(2s).ends(3s, ExitStatus::exited(5), symptom()).leaves(4s);
  const Blame found = blame(workers.all);
  CHECK(found.guilty == LocalRank(1));
  CHECK(found.why ==
        "rank 5 (pid 701) left with exit code 0 after 2.0 s, while others waited for it: rank 6 (pid 702) "
        "exited with code 5 after 3.0 s: lost a peer");
  CHECK(found.exit_code == 5);
}

TEST_CASE("where nobody left before the symptom, who left first after it is to blame") {
  CHECK(blame(Workers().ends(1s, kOne, symptom()).leaves(4s).leaves(3s).all).guilty == LocalRank(2));
}

TEST_CASE("of symptoms alone who stood still is to blame, unless one had left before") {
  const Blame found =
      blame(Workers().runs().runs().suspended().ends(3s, ExitStatus::exited(5), silence()).all);
  CHECK(found.guilty == LocalRank(1));
  CHECK(found.victim == LocalRank(2));
  CHECK(found.exit_code == 5);
  CHECK(found.why ==
        "rank 5 (pid 701) was stopped by a signal (SIGSTOP), while others waited for it: rank 6 (pid 702) "
        "exited "
        "with code 5 after 3.0 s: waited in vain");
  CHECK(blame(Workers().leaves(1s).runs().suspended().ends(3s, kOne, silence()).all).guilty == LocalRank(0));
  CHECK(blame(Workers().leaves(4s).runs().suspended().ends(3s, kOne, silence()).all).guilty == LocalRank(1));
}

TEST_CASE("who stood still has closed no connection, but others may have lost who waited for it in vain") {
  CHECK(blame(Workers().runs().suspended().ends(3s, kOne, symptom()).all).guilty == LocalRank(1));
  const Workers both = Workers().runs().suspended().ends(3s, kOne, symptom()).ends(4s, kOne, silence());
  CHECK(blame(both.all).guilty == LocalRank(0));
}

TEST_CASE("who stood still and failed once it went on is still to blame, unless that was its own doing") {
  const Workers lost = Workers().ends(4s, kOne, symptom()).suspended().ends(3s, kOne, silence());
  CHECK(blame(lost.all).guilty == LocalRank(0));
  CHECK(blame(lost.all).victim == LocalRank(1));
  const Workers own_doing =
      Workers().ends(4s, kOne, own("ValueError: x")).suspended().ends(3s, kOne, silence());
  CHECK(blame(own_doing.all).guilty == LocalRank(0));
  CHECK_FALSE(blame(own_doing.all).victim);
}

TEST_CASE("nobody is its own victim") {
  const Blame found = blame(Workers().ends(3s, kOne, silence()).suspended().runs().all);
  CHECK(found.guilty == LocalRank(0));
  CHECK_FALSE(found.victim);
}

TEST_CASE("who stood still is not blamed for what others failed of themselves, nor for a doubt") {
  CHECK(blame(Workers().runs().suspended().ends(2s, kOne).all).guilty == LocalRank(1));
  CHECK(blame(Workers().runs().suspended().ends(2s, kOne, doubt()).all).guilty == LocalRank(1));
}

TEST_CASE(
    "while the group is stopped, a cause takes over from who stood still or left, with a code of its own") {
  const Workers workers = Workers()
                              .runs()
                              .suspended()
                              .ends(3s, ExitStatus::exited(5), silence())
                              .ends(5s, kTerminated, own("ValueError: x"))
                              .stopped_with(SIGTERM);
  const std::optional<Blame> better = reconsider(workers.all, LocalRank(0), LocalRank(2));
  REQUIRE(better);
  CHECK(better->guilty == LocalRank(2));
  CHECK(better->exit_code == 1);
  const Workers left = Workers().leaves(1s).ends(5s, kTerminated, own("ValueError: x")).stopped_with(SIGTERM);
  CHECK(reconsider(left.all, LocalRank(0), LocalRank(1))->exit_code == 1);
}

TEST_CASE("another node may have lost who stands still here, if nobody has left") {
  const std::optional<Blame> found = blame_until_now(Workers().runs().runs().suspended().all);
  REQUIRE(found);
  CHECK(found->guilty == LocalRank(1));
  CHECK(found->why == "rank 5 (pid 701) was stopped by a signal (SIGSTOP), while others waited for it");
  CHECK(blame_until_now(Workers().runs().suspended().leaves(2s).all)->guilty == LocalRank(1));
  CHECK_FALSE(blame_until_now(Workers().runs().all));
}

TEST_CASE("who left is not blamed for what may be no loss of a peer") {
  CHECK(blame(Workers().leaves(1s).ends(2s, kOne, doubt()).all).guilty == LocalRank(1));
}

TEST_CASE("a failure that our own signal cut short is told by its error, with the code of who ended first") {
  const Workers workers = Workers()
                              .ends(2s, ExitStatus::exited(9))
                              .ends(3s, kTerminated, own("ValueError: x", kStart + 1s))
                              .stopped_with(SIGTERM);
  const std::optional<Blame> better = reconsider(workers.all, LocalRank(0), LocalRank(1));
  REQUIRE(better);
  CHECK(better->guilty == LocalRank(1));
  CHECK(better->why == "rank 5 (pid 701) failed after 1.0 s: ValueError: x");
  CHECK_FALSE(better->exit_code);
}

TEST_CASE("a failure that our own signal cut short has code 1 after a symptom") {
  const Workers workers = Workers()
                              .ends(2s, ExitStatus::exited(9), symptom())
                              .ends(3s, kTerminated, own("ValueError: x"))
                              .stopped_with(SIGTERM);
  CHECK(reconsider(workers.all, LocalRank(0), LocalRank(1))->exit_code == 1);
}

TEST_CASE("while the group is stopped, a cause takes over from who left, whenever it failed") {
  const Workers workers = Workers().leaves(1s).ends(5s, kOne, own("ValueError: x"));
  CHECK(reconsider(workers.all, LocalRank(0), LocalRank(1))->guilty == LocalRank(1));
}

TEST_CASE("while the group is stopped, only an own and earlier cause takes over") {
  const Workers later = Workers().ends(1s, kOne).ends(2s, kOne, own("ValueError: x"));
  CHECK_FALSE(reconsider(later.all, LocalRank(0), LocalRank(1)));
  const Workers stopped = Workers().ends(1s, kOne, symptom()).ends(2s, kTerminated).stopped_with(SIGTERM);
  CHECK_FALSE(reconsider(stopped.all, LocalRank(0), LocalRank(1)));
  const Workers again = Workers().ends(1s, kOne, own("ValueError: x"));
  CHECK_FALSE(reconsider(again.all, LocalRank(0), LocalRank(0)));
}

TEST_CASE("what another node is stopped for gives way to a cause of ours, judged in the same way") {
  const Workers cut_short = Workers().ends(3s, kTerminated, own("ValueError: x")).stopped_with(SIGTERM);
  const std::optional<Blame> found = reconsider(cut_short.all, std::nullopt, LocalRank(0));
  REQUIRE(found);
  CHECK(found->why == "rank 4 (pid 700) failed after 3.0 s: ValueError: x");
  CHECK(found->exit_code == 1);
  const Workers final =
      Workers().ends(3s, ExitStatus::exited(93), own("ValueError: x")).stopped_with(SIGTERM);
  CHECK(reconsider(final.all, std::nullopt, LocalRank(0))->exit_code == 93);
  CHECK_FALSE(reconsider(Workers().ends(3s, kOne, symptom()).all, std::nullopt, LocalRank(0)));
  const Workers by_us = Workers().ends(3s, kOne, {.error = "Preempted"}).stopped_with(SIGTERM);
  CHECK_FALSE(reconsider(by_us.all, std::nullopt, LocalRank(0)));
}

TEST_CASE("when another node's failure stops the group, what has ended here is judged as ever") {
  CHECK_FALSE(blame_until_now(Workers().runs().runs().all));
  const Workers failed = Workers().ends(2s, kOne, symptom()).runs().ends(3s, ExitStatus::exited(75), doubt());
  CHECK(blame_until_now(failed.all)->guilty == LocalRank(2));
  CHECK(blame_until_now(failed.all)->exit_code == 75);
  const Workers left = Workers().leaves(2s).runs().leaves(1s);
  CHECK(blame_until_now(left.all)->guilty == LocalRank(2));
  CHECK(blame_until_now(left.all)->why ==
        "rank 6 (pid 702) left with exit code 0 after 1.0 s, while others waited for it");
}

TEST_CASE("a worker that was never spawned has no pid in its name") {
  CHECK(name_of({.rank = Rank(3)}) == "rank 3");
}
