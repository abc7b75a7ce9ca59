#include "tests/support/catch.h"
#include "tests/unit/membership/job_story.h"

#include <fmt/format.h>

#include <csignal>
#include <string>
#include <vector>

namespace ddprun::membership {

using namespace std::chrono_literals;
using testing::elastic;
using testing::fixed;
using testing::kCoordinator;
using testing::running;
using testing::Story;

TEST_CASE("the first failure received is the root cause on every node, and its code is the job's") {
  Story story = running(fixed(2), "ab");
  story.fail('b', 7);
  story.fail('a', 9);
  CHECK(story.last('a').kind == OrderKind::kStop);
  CHECK(story.last('a').text == "rank 0 exited with code 7 on node 1 (b, 10.0.0.2)");
  story.tell('a', Phase::kIdle);
  story.tell('b', Phase::kIdle);
  CHECK(story.last('a').end->exit_code == 7);
  CHECK(story.last('b').end->root_cause->node_rank == NodeRank(1));
}

TEST_CASE(
    "a cause that comes while the job is stopped for a symptom takes its place, and nothing takes the "
    "cause's") {
  Story story = running(fixed(3), "abc");
  story.fail('a', 1, false, true);
  story.fail('b', 7);
  story.fail('c', 8);
  for (const char name : {'a', 'b', 'c'}) story.tell(name, Phase::kIdle);
  REQUIRE(story.last('c').end);
  CHECK(story.last('c').end->exit_code == 7);
  CHECK(story.last('c').end->root_cause->node_rank == NodeRank(1));
  CHECK(story.last('a').end->why == "rank 0 exited with code 7 on node 1 (b, 10.0.0.2)");
}

TEST_CASE("why a worker failed is told with the restart, and with the end") {
  Story story = running(fixed(1, 1), "a");
  const auto fail = [&] {
    const NodeFailure failure{.worker = WorkerEnd{.rank = Rank(0)},
                              .exit_code = 7,
                              .what = "rank 0 exited with code 7",
                              .account = {.diagnosis = "ValueError: x"}};
    story.tell('a',
               Status{.generation = story.job.generation(), .phase = Phase::kStopping, .failure = failure});
    CHECK(story.last('a').text == "rank 0 exited with code 7");
    story.tell('a', Phase::kIdle);
  };
  fail();
  CHECK(story.last('a').restart->why == "rank 0 exited with code 7: ValueError: x");
  story.tell('a', Phase::kRunning);
  fail();
  CHECK(story.last('a').end->root_cause->account.diagnosis == "ValueError: x");
}

TEST_CASE("a lost node explains the workers that failed elsewhere just before") {
  Story story = running(elastic(1, 2), "ab");
  story.fail('b', 1);  // its peer is gone, but nobody knows yet
  story.tell('b', Phase::kIdle);
  story.lose('a');
  story.wait_out_the_lease("b");
  CHECK(story.job.generation() == Generation(2));
}

TEST_CASE("a node that is lost after a worker has failed elsewhere does not explain that failure") {
  const bool is_final = GENERATE(true, false);
  Story story = running(fixed(2, is_final ? 1 : 0), "ab");
  story.pass(250ms);
  story.fail('a', is_final ? 93 : 7, is_final);
  story.now += 250ms;
  story.tell('b', Phase::kStopping);
  story.lose('b');
  story.stop_and_wait("a");
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  CHECK(story.last('a').end->exit_code == (is_final ? 93 : 7));
}

TEST_CASE("a node that is told to stop while another's failure is stopped does not take its place") {
  Story story = running(fixed(2, 1), "ab");
  story.fail('b', 7);
  story.tell('b',
             Status{.generation = story.job.generation(), .phase = Phase::kIdle, .leaving_signal = SIGTERM});
  story.tell('a', Phase::kIdle);
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  CHECK(story.last('a').end->exit_code == 7);
  CHECK_THAT(story.last('a').end->why, Catch::Matchers::Contains("rank 0 exited with code 7"));
  CHECK(story.last('b').end->exit_code == 7);
}

TEST_CASE("a node whose workers left with 0 is named when torch.distributed lost a peer on another") {
  const bool lost_a_peer = GENERATE(true, false);
  Story story = running(fixed(2), "ab");
  story.tell('b', Phase::kSucceeded);
  NodeFailure failure{.worker = WorkerEnd{.rank = Rank(0)},
                      .host = "a",
                      .exit_code = 1,
                      .what = "rank 0 (pid 9) exited with code 1: lost a peer"};
  failure.weight = lost_a_peer ? Weight::kSymptom : Weight::kDoubtful;
  story.tell('a', Status{.generation = story.job.generation(), .phase = Phase::kIdle, .failure = failure});
  story.tell('b', Phase::kIdle);
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  const JobEnd& end = *story.last('a').end;
  CHECK(end.exit_code == 1);
  CHECK(end.root_cause->node_rank == NodeRank(lost_a_peer ? 1 : 0));
  const std::string why = "rank 0 (pid 9) exited with code 1 on node 0 (a, 10.0.0.1): lost a peer";
  const std::string leaver =
      "rank 1 left with exit code 0 on node 1 (b, 10.0.0.2), while others waited for it: ";
  CHECK(end.why == (lost_a_peer ? leaver + why : why));
}

TEST_CASE("a rank that left with 0 on a node where others go on is named for the lost peer of another") {
  const bool lost_a_peer = GENERATE(true, false);
  Story story = running(fixed(2), "ab");
  NodeFailure failure{.worker = WorkerEnd{.rank = Rank(0)},
                      .host = "a",
                      .exit_code = 9,
                      .what = "rank 0 (pid 9) exited with code 9: lost a peer"};
  failure.weight = lost_a_peer ? Weight::kSymptom : Weight::kDoubtful;
  story.tell('a', Status{.generation = story.job.generation(), .phase = Phase::kIdle, .failure = failure});
  const NodeFailure leaver{.worker = WorkerEnd{.rank = Rank(1)},
                           .host = "b",
                           .what = "rank 1 (pid 8) left with exit code 0, while others waited for it",
                           .weight = Weight::kSymptom,
                           .has_left = true};
  story.tell('b', Status{.generation = story.job.generation(), .phase = Phase::kStopping, .failure = leaver});
  story.tell('b', Status{.generation = story.job.generation(), .phase = Phase::kIdle, .failure = leaver});
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  const JobEnd& end = *story.last('a').end;
  CHECK(end.exit_code == 9);
  CHECK(end.root_cause->node_rank == NodeRank(lost_a_peer ? 1 : 0));
  const std::string why = "rank 0 (pid 9) exited with code 9 on node 0 (a, 10.0.0.1): lost a peer";
  const std::string who =
      "rank 1 (pid 8) left with exit code 0 on node 1 (b, 10.0.0.2), while others waited for it: ";
  CHECK(end.why == (lost_a_peer ? who + why : why));
}

TEST_CASE(
    "where a lost node is the cause, a worker's failure is told as what happened meanwhile, and is not it") {
  Story story = running(fixed(2), "ab");
  story.fail('a', 4);
  story.lose('b');
  story.stop_and_wait("a");
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  CHECK(story.last('a').end->exit_code == 75);
  CHECK_FALSE(story.last('a').end->root_cause);
  CHECK(story.last('a').end->why ==
        "node 1 (b, 10.0.0.2) was lost: its connection was closed; meanwhile rank 0 exited with code 7 on "
        "node 0 "
        "(a, 10.0.0.1)");
}

TEST_CASE("who has come back with its success is named by its own rank when it was lost") {
  Story story = running(fixed(2), "ab");
  story.tell('b', Phase::kSucceeded);
  story.lose('b');
  story.join('z', std::nullopt, 'b', 1, {}, Success{Generation(1), NodeRank(1), 2, kCoordinator, Rank(1)});
  story.fail('a', 9, false, true);
  story.tell('a', Phase::kIdle);
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  CHECK(story.last('a').end->root_cause->rank() == Rank(1));
  CHECK_THAT(story.last('a').end->why, Catch::Matchers::StartsWith("rank 1 left with exit code 0 on node 1"));
}

TEST_CASE("a node that was heard in an earlier stop may be lost before a failure of this generation") {
  Story story = running(fixed(2, 1), "ab");
  story.fail('a', 7);
  for (const char name : {'b', 'a'}) story.tell(name, Phase::kIdle);
  REQUIRE(story.job.generation() == Generation(2));
  story.tell('a', Phase::kRunning);
  story.fail('a', 9);
  story.stop_and_wait("a");
  story.wait_out_the_lease("a");
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  CHECK(story.last('a').end->exit_code == 75);
}

TEST_CASE("an exit code that means do not restart ends the job, whatever it was being stopped for") {
  Story story = running(fixed(3, 1), "abc");
  story.lose('c');
  story.fail('b', 93, true);
  story.stop_and_wait("ab");
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  CHECK(story.last('a').end->exit_code == 93);
}

TEST_CASE("the loss of a node that was heard after a doubtful failure does not explain that either") {
  Story story = running(fixed(2), "ab");
  story.fail('a', 5, false, true);
  story.tell('b', Phase::kStopping);
  story.lose('b');
  story.stop_and_wait("a");
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  CHECK(story.last('a').end->exit_code == 5);
}

TEST_CASE("of the failures of two nodes the heavier one is to blame, with its code") {
  const Weight later = GENERATE(Weight::kSymptom, Weight::kDoubtful, Weight::kCause);
  Story story = running(fixed(2), "ab");
  story.fail('a', 1, false, true);
  const NodeFailure failure{.worker = WorkerEnd{.rank = Rank(0)},
                            .host = "b",
                            .exit_code = 75,
                            .what = "rank 1 exited",
                            .weight = later};
  story.tell('b', Status{.generation = story.job.generation(), .phase = Phase::kIdle, .failure = failure});
  story.tell('a', Phase::kIdle);
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  CHECK(story.last('a').end->exit_code == (later == Weight::kSymptom ? 1 : 75));
  CHECK(story.last('a').end->root_cause->host == (later == Weight::kSymptom ? "a" : "b"));
}

TEST_CASE("of two causes of one node the one that it tells of last is to blame, of two nodes the first") {
  const char second = GENERATE('a', 'b');
  Story story = running(fixed(2, 1), "ab");
  const NodeFailure later{
      .worker = WorkerEnd{.rank = Rank(1)}, .host = "a", .exit_code = 5, .what = "rank 1 exited"};
  NodeFailure older{
      .worker = WorkerEnd{.rank = Rank(0)}, .host = {second}, .exit_code = 93, .what = "rank 0 exited"};
  older.final_because = "exit code 93 means: do not restart";
  const Generation generation = story.job.generation();
  story.tell('a', Status{.generation = generation, .phase = Phase::kStopping, .failure = later});
  story.tell(second, Status{.generation = generation, .phase = Phase::kStopping, .failure = older});
  story.tell('a', Phase::kIdle);
  story.tell('b', Phase::kIdle);
  CHECK((story.last('a').kind == OrderKind::kEnd) == (second == 'a'));
  if (second == 'a') CHECK(story.last('a').end->exit_code == 93);
}

TEST_CASE("who left with 0 is named with what the rank that lost it says") {
  const bool is_told = GENERATE(true, false);
  Story story = running(fixed(2), "ab");
  NodeFailure failure{
      .worker = WorkerEnd{.rank = Rank(7)}, .host = "a", .what = "rank 7 exited with code 1: lost a peer"};
  failure.weight = Weight::kSymptom;
  failure.account.diagnosis = "DistBackendError";
  failure.account.stderr_tail = "Traceback";
  failure.account.is_traceback = true;
  NodeFailure leaver{.worker = WorkerEnd{.rank = Rank(8)},
                     .what = "rank 8 left",
                     .weight = Weight::kSymptom,
                     .has_left = true};
  const Generation generation = story.job.generation();
  story.tell('a', Status{.generation = generation, .phase = Phase::kIdle, .failure = failure});
  if (is_told) story.tell('b', Status{.generation = generation, .phase = Phase::kIdle, .failure = leaver});
  // Else all of b had left, and its word of that comes later.
  if (!is_told) story.tell('b', Phase::kSucceeded), story.tell('b', Phase::kIdle);
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  const NodeFailure& cause = *story.last('a').end->root_cause;
  CHECK(cause.node_rank == NodeRank(1));
  CHECK(cause.victim == Rank(7));
  CHECK(cause.account.diagnosis == "DistBackendError");
  CHECK(cause.account.stderr_tail == "Traceback");
  CHECK(cause.account.is_traceback);
}

TEST_CASE("that a restart will not help stays true when another is found to have failed before") {
  const char second = GENERATE('a', 'b');
  Story story = running(fixed(2, 1), "ab");
  NodeFailure first{
      .worker = WorkerEnd{.rank = Rank(1)}, .host = "a", .exit_code = 93, .what = "rank 1 exited"};
  first.final_because = "exit code 93 means: do not restart";
  first.weight = second == 'a' ? Weight::kCause : Weight::kDoubtful;
  const NodeFailure older{
      .worker = WorkerEnd{.rank = Rank(0)}, .host = {second}, .exit_code = 5, .what = "rank 0 exited"};
  const Generation generation = story.job.generation();
  story.tell('a', Status{.generation = generation, .phase = Phase::kStopping, .failure = first});
  story.tell(second, Status{.generation = generation, .phase = Phase::kStopping, .failure = older});
  story.tell('a', Phase::kIdle);
  story.tell('b', Phase::kIdle);
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  CHECK(story.last('a').end->exit_code == 5);
  CHECK(story.last('a').end->root_cause->rank() == Rank(0));
}

TEST_CASE("a node that goes on telling of a rank that left, and of its success, changes nothing any more") {
  Story story = running(fixed(2), "ab");
  NodeFailure failure{.worker = WorkerEnd{.rank = Rank(0)}, .host = "a", .what = "rank 0 exited with code 1"};
  failure.weight = Weight::kSymptom;
  const NodeFailure leaver{.worker = WorkerEnd{.rank = Rank(9)},
                           .what = "rank 9 left",
                           .weight = Weight::kSymptom,
                           .has_left = true};
  const Generation generation = story.job.generation();
  story.tell('a', Status{.generation = generation, .phase = Phase::kStopping, .failure = failure});
  for (int heartbeat = 0; heartbeat < 5; ++heartbeat) {
    story.tell('b', Status{.generation = generation, .phase = Phase::kSucceeded, .failure = leaver});
  }
  story.tell('a', Phase::kIdle);
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  CHECK(story.last('a').end->why ==
        "rank 9 left on node 1 (b, 10.0.0.2): rank 0 exited with code 1 on node 0 (a, 10.0.0.1)");
  CHECK(story.last('a').end->root_cause->victim == Rank(0));
}

namespace {

NodeFailure symptom_of(int rank, bool waited_in_vain) {
  NodeFailure failure{.worker = WorkerEnd{.rank = Rank(rank)}, .what = fmt::format("rank {} exited", rank)};
  failure.weight = Weight::kSymptom;
  failure.waited_in_vain = waited_in_vain;
  failure.account.diagnosis = "timed out";
  return failure;
}

NodeFailure standstill_of(int rank) {
  NodeFailure failure{.worker = WorkerEnd{.rank = Rank(rank)},
                      .what = fmt::format("rank {} was stopped", rank)};
  failure.weight = Weight::kSymptom;
  failure.stood_still = true;
  return failure;
}

}  // namespace

TEST_CASE("who stands still on another node is behind a wait in vain, and behind no other loss") {
  const bool in_vain = GENERATE(true, false);
  Story story = running(fixed(2), "ab");
  const Generation generation = story.job.generation();
  story.tell('a',
             Status{.generation = generation, .phase = Phase::kStopping, .failure = symptom_of(0, in_vain)});
  story.tell('b', Status{.generation = generation, .phase = Phase::kIdle, .failure = standstill_of(1)});
  story.tell('a', Phase::kIdle);
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  const NodeFailure& cause = *story.last('a').end->root_cause;
  CHECK(cause.rank() == Rank(in_vain ? 1 : 0));
  CHECK(cause.victim == (in_vain ? std::optional(Rank(0)) : std::nullopt));
  CHECK(cause.account.diagnosis == "timed out");
}

TEST_CASE("who left on another node comes before who stood still, and not after it") {
  const bool is_told_first = GENERATE(true, false);
  Story story = running(fixed(3), "abc");
  const Generation generation = story.job.generation();
  NodeFailure leaver{.worker = WorkerEnd{.rank = Rank(2)}, .what = "rank 2 left"};
  leaver.weight = Weight::kSymptom;
  leaver.has_left = true;
  story.tell('a',
             Status{.generation = generation, .phase = Phase::kStopping, .failure = symptom_of(0, true)});
  if (is_told_first)
    story.tell('c', Status{.generation = generation, .phase = Phase::kIdle, .failure = leaver});
  story.tell('b', Status{.generation = generation, .phase = Phase::kIdle, .failure = standstill_of(1)});
  if (!is_told_first)
    story.tell('c', Status{.generation = generation, .phase = Phase::kIdle, .failure = leaver});
  story.tell('a', Phase::kIdle);
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  const NodeFailure& cause = *story.last('a').end->root_cause;
  CHECK(cause.rank() == Rank(2));
  CHECK(cause.victim == Rank(0));
}

TEST_CASE("a cause of any node is before who left with 0") {
  Story story = running(fixed(2), "ab");
  const NodeFailure leaver{.worker = WorkerEnd{.rank = Rank(0)},
                           .host = "b",
                           .what = "rank 1 left",
                           .weight = Weight::kSymptom,
                           .has_left = true};
  story.tell('b', Status{.generation = story.job.generation(), .phase = Phase::kStopping, .failure = leaver});
  story.fail('a', 7);
  story.tell('a', Phase::kIdle);
  story.tell('b', Phase::kIdle);
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  CHECK(story.last('a').end->exit_code == 7);
  CHECK(story.last('a').end->root_cause->host == "a");
}

TEST_CASE(
    "an exit code that means do not restart is the end, also where a node was lost at the same moment") {
  Story story = running(GENERATE(true, false) ? fixed(2, 1) : elastic(1, 2), "ab");
  story.fail('a', 93, true);
  story.lose('b');
  story.stop_and_wait("a");
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  CHECK(story.last('a').end->exit_code == 93);
}

TEST_CASE("a pause of the coordinator makes no node present that had died before a failure") {
  Story story = running(fixed(2), "ab");
  story.heartbeats = {'a'};
  story.phases['a'] = Phase::kRunning;
  story.pass(500ms);
  story.fail('a', 7);
  story.now += 1s;
  story.stop_and_wait("a");
  story.wait_out_the_lease("a");
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  CHECK(story.last('a').end->exit_code == 75);
}

TEST_CASE("when the coordinator itself stood still, nobody is blamed") {
  Story story = running(fixed(2), "ab");
  story.now += 60s;
  story.tell('a', Phase::kRunning);
  CHECK(story.job.state() == JobPhase::kRunning);
  CHECK(story.expelled('b') == "");
}

TEST_CASE("when the coordinator stood still for longer than the lease, that is why nodes were cut off") {
  const bool is_restarted = GENERATE(false, true);
  Story story = running(fixed(2, is_restarted ? 1 : 0), "ab");
  story.now += 6s;
  story.tell('a', Phase::kRunning);
  story.lose('b');
  story.tell('a', Phase::kIdle);
  story.wait_out_the_lease("a");
  const Order& last = story.last('a');
  CHECK((is_restarted ? last.restart->why : last.end->why) ==
        "node 1 (b, 10.0.0.2) was lost because the coordinator stood still for 6.00 s, and the lease is "
        "4.00 s: its connection was closed");
}

TEST_CASE("a pause of the coordinator explains no worker that failed by itself, whatever is heard first") {
  Story story = running(fixed(2), "ab");
  // A lease of 4 s was counted from up to a second before the pause.
  story.now += GENERATE(as<Duration>{}, 60s, 3100ms);
  const auto failure_is_read = [&] {
    story.fail('b', 7);
    story.tell('b', Phase::kIdle);
  };
  const auto says_why = [&] {
    REQUIRE(story.last('b').end);
    return std::pair(story.last('b').end->exit_code, story.last('b').end->why);
  };
  const std::pair<int, std::string> right{7, "rank 0 exited with code 7 on node 1 (b, 10.0.0.2)"};
  SECTION("the failure, then that the coordinator's own node is cut off") {
    failure_is_read();
    story.tell('a', Phase::kIdle);
    CHECK(says_why() == right);
  }
  SECTION("that it is cut off, then the failure") {
    story.tell('a', Phase::kStopping);
    failure_is_read();
    story.tell('a', Phase::kIdle);
    CHECK(says_why() == right);
  }
  SECTION("the failure, then that its own node comes back") {
    failure_is_read();
    story.lose('a');
    story.join('c', std::nullopt, 'a');
    CHECK(says_why() == right);
  }
  SECTION("a symptom is explained by it") {
    story.fail('b', 7, false, true);
    story.tell('b', Phase::kIdle);
    story.lose('a');
    story.join('c', std::nullopt, 'a');
    CHECK(says_why().first == 75);
    CHECK_THAT(says_why().second,
               Catch::StartsWith("node 0 (a, 10.0.0.1) was lost because the coordinator stood still for ") &&
                   Catch::Contains(" s, and the lease is 4.00 s: its connection was closed"));
  }
}

TEST_CASE("why a node was cut off is told, as it says") {
  Story story = running(fixed(2), "ab");
  story.tell('b', Status{.generation = Generation(1),
                         .phase = Phase::kStopping,
                         .cut_off = "it was not answered for 4.00 s"});
  CHECK(story.last('a').text ==
        "node 1 (b, 10.0.0.2) was cut off and stopped its workers: it was not answered for 4.00 s");
}

TEST_CASE("why a node that comes back was cut off is told, as it says") {
  Story story = running(fixed(2), "ab");
  story.join('c', std::nullopt, 'b', 0, "it was not answered for 4.00 s");
  CHECK(
      story.last('a').text ==
      "node 1 (b, 10.0.0.2) was lost: it was not answered for 4.00 s; it stopped its workers and came back");
}

TEST_CASE("the node of a failure is named where it happened, not after what followed") {
  Story story = running(fixed(2), "ab");
  const auto said = [&](const std::string& what) {
    story.tell('b', Status{.generation = Generation(1),
                           .phase = Phase::kStopping,
                           .failure = NodeFailure{.worker = WorkerEnd{.rank = Rank(0)}, .what = what}});
    return story.last('a').text;
  };
  SECTION("a symptom") {
    CHECK(said("rank 1 exited with code 1 after 3.2 s: lost a peer (Connection closed by peer)") ==
          "rank 1 exited with code 1 after 3.2 s on node 1 (b, 10.0.0.2): lost a peer (Connection closed by "
          "peer)");
  }
  SECTION("who left") {
    CHECK(said("rank 1 left with exit code 0 after 3.2 s, while others waited for it: rank 2 failed") ==
          "rank 1 left with exit code 0 after 3.2 s on node 1 (b, 10.0.0.2), while others waited for it: "
          "rank 2 "
          "failed");
  }
}

TEST_CASE("a pause of the coordinator explains nothing that happens long after") {
  Story story = running(fixed(2), "ab");
  story.now += 6s;
  story.phases = {{'a', Phase::kRunning}, {'b', Phase::kRunning}};
  story.heartbeats = {'a', 'b'};
  story.pass(6s);
  story.tell('b', Phase::kIdle);
  CHECK(story.last('a').text == "node 1 (b, 10.0.0.2) was cut off and stopped its workers");
}

TEST_CASE("a node that is gone after its workers succeeded is no cause of another's failure") {
  Story story = running(fixed(2), "ab");
  story.tell('a', Phase::kSucceeded);
  story.fail('b', 7);
  story.lose('a');
  story.tell('b', Phase::kIdle);
  CHECK(story.last('b').end->exit_code == 7);
}

}  // namespace ddprun::membership
