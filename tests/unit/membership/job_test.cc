#include "tests/support/catch.h"
#include "tests/unit/membership/job_story.h"

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

TEST_CASE("the last node to join starts the job on all nodes") {
  Story story(fixed(2));
  story.join('b');
  CHECK(story.job.state() == JobPhase::kGathering);
  story.join('a');
  REQUIRE(story.last('b').seat);
  CHECK(story.last('a').seat->node_rank == NodeRank(0));
  CHECK(story.last('b').seat->node_rank == NodeRank(1));
}

TEST_CASE("who is here and who is missing is said while waiting") {
  Story story(fixed(3));
  story.join('a', 0);
  story.join('b', 2);
  CHECK(story.job.describe(story.now) ==
        "2 of 3 nodes are here: node a (10.0.0.1), node b (10.0.0.2); missing: node rank 1");
}

TEST_CASE("after the join time-out every node is told who is missing") {
  Story story(fixed(2), {.join_timeout = 10s});
  story.join('a', 0);
  story.heartbeats = {'a'};
  story.pass(11s);
  CHECK(story.last('a').kind == OrderKind::kEnd);
  CHECK(story.last('a').end->exit_code == 75);
  CHECK(story.last('a').end->why ==
        "1 of 2 nodes came within 10 s; 1 of 2 nodes are here: node a (10.0.0.1); missing: node rank 1");
}

TEST_CASE("after the end a new node is sent away, and one that was cut off is told the end") {
  Story story = running(elastic(1, 2), "ab");
  story.tell('a', Phase::kSucceeded);
  story.tell('b', Phase::kSucceeded);
  REQUIRE(story.job.state() == JobPhase::kEnded);
  story.join('c');
  CHECK_THAT(story.expelled('c'), Catch::Matchers::Contains("has ended"));
  story.lose('b');
  story.join('d', std::nullopt, 'b');
  CHECK(story.expelled('d').empty());
  story.tell('d', Status{});
  CHECK(story.last('d').kind == OrderKind::kEnd);
  CHECK(story.last('d').end == story.last('a').end);
}

TEST_CASE("after the end, who goes on talking and does not leave is sent away") {
  Story story = running(fixed(1), "a");
  story.tell('a', Phase::kSucceeded);
  REQUIRE(story.job.state() == JobPhase::kEnded);
  story.heartbeats = {'a'};
  story.phases['a'] = Phase::kSucceeded;
  story.pass(9s);
  CHECK(story.expelled('a').empty());
  story.pass(2s);
  CHECK(story.expelled('a') == "the job has ended, and this node did not leave");
}

TEST_CASE("a --node-rank outside the world is refused after the end, too") {
  Story story = running(elastic(1, 3), "abc");
  for (const char name : {'a', 'b', 'c'}) story.tell(name, Phase::kSucceeded);
  REQUIRE(story.job.state() == JobPhase::kEnded);
  story.lose('b');
  story.lose('c');
  story.heartbeats = {'a'};
  story.phases['a'] = Phase::kSucceeded;
  story.join('x', 2'000'000'000, 'q');
  CHECK_THAT(story.expelled('x'), Catch::Matchers::Contains("asks for node rank 2000000000"));
  story.pass(2s);
  CHECK(story.last('a').kind == OrderKind::kEnd);
}

TEST_CASE("two nodes with one --node-rank: the second is refused, both are named") {
  Story story(fixed(2));
  story.join('a', 0);
  story.join('b', 0);
  CHECK(
      story.expelled('b') ==
      "node rank 0 of node b (10.0.0.2) is taken by node a (10.0.0.1); give every node its own --node-rank");
}

TEST_CASE("who takes the --node-rank of a silent node while nodes gather takes its place") {
  Story story(fixed(3, 1));
  story.join('a', 0);
  story.join('b', 1);
  story.heartbeats = {'a'};
  story.pass(2250ms);
  story.join('c', 1);
  CHECK(story.expelled('b') ==
        "node b (10.0.0.2) was lost: it was silent for 2.25 s, and node c (10.0.0.3) came for node rank 1; "
        "start ddprun there again to join the next generation");
  CHECK(story.job.state() == JobPhase::kGathering);
  story.join('d', 2);
  CHECK(story.last('c').seat->node_rank == NodeRank(1));
  CHECK(story.last('d').seat->node_rank == NodeRank(2));
}

TEST_CASE("a node whose place was taken while it was silent is refused, and let in when it is free") {
  Story story(fixed(3));
  story.join('a', 0);
  story.join('b', 1);
  story.heartbeats = {'a'};
  story.pass(2250ms);
  story.join('c', 1);
  story.join('e', 1, 'b');
  CHECK_THAT(story.expelled('e'), Catch::Matchers::Contains("is taken by node c (10.0.0.3)"));
  story.lose('c');
  story.join('f', 1, 'b');
  CHECK(story.expelled('f').empty());
}

namespace {

/// Node b stands still for a while, and who comes for its rank meanwhile waits beside it.
Story with_a_double_of_b(JobSpec spec) {
  Story story(std::move(spec), {.debounce = 2s});
  for (const char name : {'a', 'b', 'c'}) story.join(name, name - 'a');
  for (const char name : {'a', 'b', 'c'}) story.phases[name] = Phase::kRunning;
  story.heartbeats = {'a', 'b', 'c'};
  story.pass(3s);
  story.heartbeats = {'a', 'c'};
  story.pass(2250ms);
  story.join('d', 1);
  story.heartbeats = {'a', 'b', 'c', 'd'};
  return story;
}

}  // namespace

TEST_CASE("two nodes with one --node-rank are one of the nodes that a generation needs") {
  Story story = with_a_double_of_b(fixed(3, 1));
  story.lose('c');
  for (const char name : {'a', 'b'}) story.tell(name, story.phases[name] = Phase::kIdle);
  story.heartbeats = {'a', 'b', 'd'};
  story.pass(5s);
  CHECK(story.job.state() == JobPhase::kGathering);
  CHECK_THAT(story.job.describe(story.now), Catch::Matchers::Contains("2 of 3 nodes are here: node 0 (a, ") &&
                                                Catch::Matchers::Contains("missing: node rank 2"));
  story.join('e', 2);
  CHECK(story.last('b').seat->node_rank == NodeRank(1));
  CHECK(story.last('e').seat->node_rank == NodeRank(2));
  CHECK(story.last('d').kind == OrderKind::kWait);
}

TEST_CASE("an elastic job does not stop to take in a second node of one --node-rank") {
  Story story = with_a_double_of_b(elastic(2, 4));
  story.pass(5s);
  CHECK(story.job.state() == JobPhase::kRunning);
  CHECK(story.job.generation() == Generation(1));
}

TEST_CASE("a --node-rank outside the world is refused with the ranks there are") {
  Story story(fixed(2));
  story.join('c', 2);
  CHECK(story.expelled('c') ==
        "node c (10.0.0.3) asks for node rank 2, but the ranks of at most 2 nodes are 0 to 1; check "
        "--node-rank and --nnodes");
}

TEST_CASE("one restart budget serves the whole job") {
  Story story = running(fixed(2, 1), "ab");
  story.fail('a', 7);
  story.tell('a', Phase::kIdle);
  story.tell('b', Phase::kIdle);
  CHECK(story.job.generation() == Generation(2));
  CHECK(story.last('b').seat->generation == Generation(2));
  story.fail('b', 8);
  story.tell('a', Phase::kIdle);
  story.tell('b', Phase::kIdle);
  CHECK(story.last('a').end->why ==
        "rank 0 exited with code 7 on node 1 (b, 10.0.0.2); the restart budget is spent: 1 of 1");
}

TEST_CASE("an exit code that means do not restart is not restarted") {
  Story story = running(fixed(1, 5), "a");
  story.fail('a', 93, true);
  story.tell('a', Phase::kIdle);
  CHECK(story.last('a').end->exit_code == 93);
  CHECK(story.last('a').end->why == "rank 0 exited with code 7; exit code 93 means: do not restart");
}

TEST_CASE("the next generation waits until no worker of the last one is alive") {
  Story story = running(fixed(2, 3), "ab");
  story.fail('a', 7);
  story.tell('a', Phase::kIdle);
  CHECK(story.job.state() == JobPhase::kStopping);
  story.tell('b', Phase::kStopping);
  CHECK(story.job.state() == JobPhase::kStopping);
  story.tell('b', Phase::kIdle);
  CHECK(story.job.generation() == Generation(2));
}

TEST_CASE("an elastic job goes on without a lost node, at or above MIN, for nothing") {
  Story story = running(elastic(2, 3), "abc");
  story.lose('a');
  CHECK(story.last('b').text == "node 0 (a, 10.0.0.1) was lost: its connection was closed");
  story.tell('b', Phase::kIdle);
  story.tell('c', Phase::kIdle);
  story.wait_out_the_lease("bc");
  REQUIRE(story.job.generation() == Generation(2));
  CHECK(story.last('b').seat->node_rank == NodeRank(1));  // kept
  CHECK(story.last('c').seat->node_rank == NodeRank(0));  // rank 2 is gone
  CHECK(story.last('c').seat->nodes == 2);
}

TEST_CASE("a member whose node has its seat again under another name is sent away") {
  Story story = running(fixed(2), "ab");
  const Success mine{.generation = story.job.generation(),
                     .node_rank = NodeRank(1),
                     .nodes = 2,
                     .coordinator = kCoordinator};
  story.join('d', std::nullopt, 'c', 1, {}, mine);
  CHECK_THAT(story.expelled('b'), Catch::Matchers::Contains("has come back"));
  story.tell('a', Phase::kSucceeded);
  CHECK(story.job.state() == JobPhase::kEnded);
}

TEST_CASE("a lost node of a job of fixed size ends it when no restart is left") {
  Story story = running(fixed(2), "ab");
  story.lose('b');
  story.tell('a', Phase::kIdle);
  story.wait_out_the_lease("a");
  CHECK(story.last('a').end->exit_code == 75);
  CHECK(story.last('a').end->why == "node 1 (b, 10.0.0.2) was lost: its connection was closed");
}

TEST_CASE("a job of fixed size with restarts left waits for a replacement, which gets the free rank") {
  Story story = running(fixed(2, 1), "ab");
  story.lose('a');
  story.tell('b', Phase::kIdle);
  story.wait_out_the_lease("b");
  CHECK(
      story.job.describe(story.now) ==
      "1 of 2 nodes are here: node 1 (b, 10.0.0.2); missing: node rank 0 (node 0 (a, 10.0.0.1) was lost: its "
      "connection was "
      "closed)");
  story.join('z');
  CHECK(story.last('z').seat->node_rank == NodeRank(0));
  CHECK(story.last('b').seat->node_rank == NodeRank(1));
}

TEST_CASE("a spare takes the place of a lost node") {
  Story story = running(fixed(2, 1), "abc");
  CHECK(story.last('c').kind == OrderKind::kWait);
  story.lose('a');
  story.tell('b', Phase::kIdle);
  story.wait_out_the_lease("bc");
  CHECK(story.last('c').seat->node_rank == NodeRank(0));
}

TEST_CASE(
    "a silent node is lost after its heartbeats are missed, and refused with the reason when it comes back") {
  Story story = running(elastic(1, 2), "ab");
  story.heartbeats = {'b'};
  story.phases['b'] = Phase::kRunning;
  story.pass(5s);
  CHECK(story.expelled('a') ==
        "node 0 (a, 10.0.0.1) was lost: it was silent for 5.00 s; start ddprun there again to join the next "
        "generation");
  CHECK(story.last('b').kind == OrderKind::kStop);
}

TEST_CASE("after the end of a connection, in order or not, the lease of that node is waited for") {
  const Loss loss = GENERATE(Loss::kClosed, Loss::kReset);
  Story story = running(elastic(1, 2), "ab");
  story.lose('a', loss);
  story.tell('b', Phase::kIdle);
  CHECK(story.job.state() == JobPhase::kStopping);
  story.heartbeats = {'b'};
  story.phases['b'] = Phase::kIdle;
  story.pass(4750ms);
  CHECK(story.job.state() == JobPhase::kStopping);
  story.pass(250ms);
  CHECK(story.job.generation() == Generation(2));
}

TEST_CASE("an agent that said goodbye when no worker of it was alive is not waited for") {
  Story story = running(elastic(1, 2), "ab");
  story.tell('a', Phase::kIdle);
  story.lose('a');
  story.tell('b', Phase::kIdle);
  CHECK(story.job.generation() == Generation(2));
}

TEST_CASE("an agent that comes back after its connection broke has no workers, and is not waited for") {
  Story story = running(elastic(1, 2), "ab", 0s);
  story.lose('a', Loss::kReset);
  story.tell('b', Phase::kIdle);
  story.join('z', std::nullopt, 'a');
  CHECK(story.job.generation() == Generation(2));
  CHECK(story.last('z').seat->nodes == 2);
}

TEST_CASE("a node that comes to a running elastic job is taken in at the next generation") {
  Story story = running(elastic(1, 2), "a", 0s);
  story.join('b');
  CHECK(story.last('a').kind == OrderKind::kStop);
  CHECK(story.last('a').text == "node b (10.0.0.2) came; the world grows from 1 to 2 nodes");
  story.tell('a', Phase::kIdle);
  CHECK(story.last('b').seat->nodes == 2);
  CHECK(story.last('b').restart->number == 0);  // of no budget
}

TEST_CASE("the job succeeds when all workers of all nodes have, and a node may leave after its part") {
  Story story = running(fixed(2), "ab");
  story.tell('a', Phase::kSucceeded);
  story.lose('a');
  CHECK(story.job.state() == JobPhase::kRunning);
  story.tell('b', Phase::kSucceeded);
  CHECK(story.last('b').end->exit_code == 0);
}

TEST_CASE("a node told to stop leaves an elastic job, the rest go on") {
  Story story = running(elastic(1, 2), "ab");
  story.tell('a', Status{.generation = Generation(1), .phase = Phase::kStopping, .leaving_signal = SIGTERM});
  CHECK(story.last('b').text == "node 0 (a, 10.0.0.1) was told to stop by SIGTERM and leaves; 1 stay");
  story.tell('a', Status{.generation = Generation(1), .phase = Phase::kIdle, .leaving_signal = SIGTERM});
  story.tell('b', Phase::kIdle);
  CHECK(story.last('a').end->exit_code == 75);
  CHECK(story.last('b').seat->nodes == 1);
}

TEST_CASE("the node of the coordinator that is told to stop says why the job ends with it") {
  Story story(elastic(1, 2), {.debounce = 2s});
  story.host_of_coordinator = 'a';
  for (const char name : {'a', 'b'}) story.join(name);
  for (const char name : {'a', 'b'}) story.tell(name, Phase::kRunning);
  std::string how = "was told to stop by SIGTERM";
  SECTION("by a signal") {
    story.tell('a', Status{.generation = Generation(1), .phase = Phase::kIdle, .leaving_signal = SIGTERM});
  }
  SECTION("by ddprun drain") {
    how = "was drained";
    story.drain(0);
    CHECK(story.last('b').text.find("stay") == std::string::npos);
    story.tell('a', Phase::kIdle);
  }
  story.tell('b', Phase::kIdle);
  REQUIRE(story.last('b').end);
  CHECK(story.last('b').end->why ==
        "node 0 (a, 10.0.0.1) " + how + "; the coordinator runs there, and the job ends with it");
}

TEST_CASE(
    "a node told to stop by SIGTERM ends a job of fixed size everywhere, with the code that says: requeue "
    "me") {
  Story story = running(fixed(2), "ab");
  story.tell('b', Status{.generation = Generation(1), .phase = Phase::kIdle, .leaving_signal = SIGTERM});
  story.tell('a', Phase::kIdle);
  CHECK(story.last('a').end->exit_code == 75);
  CHECK(story.last('a').end->why == "node 1 (b, 10.0.0.2) was told to stop by SIGTERM");
}

TEST_CASE("whichever signal told a node to stop, it is called by its name") {
  Story story = running(fixed(2), "ab");
  story.tell('b', Status{.generation = Generation(1), .phase = Phase::kIdle, .leaving_signal = SIGXCPU});
  story.tell('a', Phase::kIdle);
  CHECK(story.last('a').end->why == "node 1 (b, 10.0.0.2) was told to stop by SIGXCPU");
}

TEST_CASE("a coordinator that is new goes on from the greatest generation that an agent has heard of") {
  Story story(fixed(2, 3));
  story.join('a', std::nullopt, std::nullopt, 4);
  story.join('b');
  CHECK(story.job.state() == JobPhase::kGathering);  // others may still run workers of it
  story.wait_out_the_lease("ab");
  REQUIRE(story.job.generation() == Generation(5));
  CHECK(story.last('b').seat->generation == Generation(5));
}

TEST_CASE("generations of several nodes that keep dying young are started again later and later") {
  Story story = running(fixed(1, 5), "a");
  story.fail('a', 7);
  story.tell('a', Phase::kIdle);
  REQUIRE(story.job.generation() == Generation(2));
  story.tell('a', Phase::kRunning);
  story.fail('a', 7);
  story.tell('a', Phase::kIdle);
  CHECK(story.job.generation() == Generation(2));
  REQUIRE(story.last('a').restart);
  CHECK(story.last('a').restart->delay == 500ms);
  CHECK(story.last('a').restart->number == 2);
  CHECK(story.job.next_wake(story.now) > story.now);  // and not at once, again and again
  story.heartbeats = {'a'};
  story.pass(500ms);
  CHECK(story.job.generation() == Generation(3));
}

TEST_CASE("a node told to stop that an elastic job cannot spare: the end says how many would stay") {
  Story story = running(elastic(2, 3), "abc");
  for (const char name : {'c', 'b'})
    story.tell(name, Status{.generation = Generation(1), .phase = Phase::kIdle, .leaving_signal = SIGTERM});
  story.tell('a', Phase::kIdle);
  REQUIRE(story.last('a').end);
  CHECK(story.last('a').end->why ==
        "node 1 (b, 10.0.0.2) was told to stop by SIGTERM; 1 of at least 2 nodes would stay");
}

TEST_CASE("drain ends the job with the code that says: requeue me") {
  Story story = running(fixed(2), "ab");
  static_cast<void>(story.job.drain(std::nullopt, story.now));
  story.tell('a', Phase::kIdle);
  story.tell('b', Phase::kIdle);
  CHECK(story.last('a').end->exit_code == 75);
}

TEST_CASE("an end that waits for workers says whose, and can be told without waiting for them") {
  Story story = running(fixed(2), "ab");
  story.end_for_all({.exit_code = 130, .why = "enough"});
  CHECK(story.last('b').kind == OrderKind::kStop);
  story.tell('a', Phase::kIdle);
  CHECK(story.job.awaited() == std::vector<std::string>{"node 1 (b, 10.0.0.2)"});
  story.end_at_once();
  CHECK(story.job.state() == JobPhase::kEnded);
  CHECK(story.last('b').end->exit_code == 130);
  story.lose('a');
  CHECK(story.job.awaited() == std::vector<std::string>{"node 1 (b, 10.0.0.2)"});
}

TEST_CASE("a job that nobody has ended does not end at once") {
  Story story = running(fixed(2), "ab");
  story.end_at_once();
  CHECK(story.job.state() == JobPhase::kRunning);
}

TEST_CASE("SIGINT ends a job with its own code, and not with a request to run again") {
  Story story = running(elastic(1, 2), "ab");
  story.tell('b', Status{.generation = Generation(1), .phase = Phase::kIdle, .leaving_signal = SIGINT});
  story.tell('a', Phase::kIdle);
  CHECK(story.last('a').end->exit_code == 130);
}

TEST_CASE("a node drained by command leaves an elastic job, and the rest go on") {
  Story story = running(elastic(1, 2), "ab");
  CHECK_FALSE(story.job.why_not_drained(NodeRank(1)));
  static_cast<void>(story.job.drain(NodeRank(1), story.now));
  story.tell('b', Phase::kIdle);
  story.tell('a', Phase::kIdle);
  CHECK(story.last('b').end->exit_code == 75);
  CHECK(story.last('a').kind == OrderKind::kRun);
  CHECK(story.job.generation() == Generation(2));
}

TEST_CASE("a drained node whose connection breaks while its workers save leaves when it is back") {
  Story story = running(elastic(1, 2), "ab");
  story.drain(1);
  story.lose('b', Loss::kReset);
  story.join('c', {}, 'b');
  story.tell('c', Phase::kIdle);
  story.tell('a', Phase::kIdle);
  REQUIRE(story.last('c').end);
  CHECK(story.last('c').end->exit_code == 75);
  CHECK(story.last('c').end->why == "node c (10.0.0.3) was drained");
  story.lose('c');
  story.wait_out_the_lease("a");
  CHECK(story.last('a').seat->nodes == 1);
}

TEST_CASE("a node of a fixed job that is told to stop between two generations ends the job on all nodes") {
  Story story = running(fixed(2, 5), "ab");
  const auto fail_and_stop = [&story](int generation) {
    story.fail('a', 7);
    story.tell('a', Phase::kIdle);
    story.tell('b', Status{.generation = Generation(generation), .phase = Phase::kIdle});
  };
  fail_and_stop(1);
  story.tell('a', Phase::kRunning);
  fail_and_stop(2);
  REQUIRE(story.job.state() == JobPhase::kGathering);  // and waits before the third start
  story.tell('b', Status{.generation = Generation(2), .phase = Phase::kIdle, .leaving_signal = SIGTERM});
  REQUIRE(story.last('a').end);
  CHECK(story.last('a').end->exit_code == 75);
}

TEST_CASE("a node that is not there cannot be drained, and those that are there are named") {
  const Story story = running(fixed(2), "ab");
  CHECK(story.job.why_not_drained(NodeRank(7)) ==
        "no node of rank 7 runs in job none; running node ranks: 0, 1");
}

TEST_CASE(
    "a node that came back while the generation is stopped, and is told to leave, ends the job of a fixed "
    "world") {
  Story story = running(fixed(2, 5), "ab");
  story.fail('a', 7);
  story.lose('b', Loss::kReset);
  story.join('z', std::nullopt, 'b', 1);
  story.tell('z',
             Status{.generation = story.job.generation(), .phase = Phase::kIdle, .leaving_signal = SIGTERM});
  story.tell('a', Phase::kIdle);
  REQUIRE(story.job.state() == JobPhase::kEnded);
  CHECK(story.job.end().exit_code == 7);
}

TEST_CASE("a node that has just come is not told of nodes without itself") {
  Story story(fixed(3), {.heartbeat = 60s});
  story.join('a');
  story.pass(2s);
  story.join('b');
  story.tell('b', Phase::kIdle);
  CHECK(story.last('b').text.empty());
  story.pass(61s);
  story.tell('b', Phase::kIdle);
  CHECK_THAT(story.last('b').text, Catch::Matchers::StartsWith("2 of 3 nodes are here: "));
}

}  // namespace ddprun::membership
