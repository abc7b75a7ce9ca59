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

TEST_CASE("a success of a generation that another coordinator began takes nobody's seat") {
  Story story = running(fixed(2), "ab");
  const Success old{
      .generation = story.job.generation(), .node_rank = NodeRank(1), .nodes = 2, .coordinator = "old"};
  story.join('z', std::nullopt, 'y', 1, {}, old);
  story.tell('a', Phase::kSucceeded);
  CHECK(story.job.state() == JobPhase::kRunning);
  CHECK(story.expelled('b').empty());
  story.tell('b', Phase::kSucceeded);
  CHECK(story.job.state() == JobPhase::kEnded);
}

TEST_CASE("a coordinator that is new waits for those who may have succeeded as well") {
  Story story(elastic(1, 2), {.rejoin_timeout = 10s});
  const auto success = [](int rank) {
    return Success{
        .generation = Generation(1), .node_rank = NodeRank(rank), .nodes = 2, .coordinator = "old"};
  };
  story.join('a', std::nullopt, 'x', 1, {}, success(0));
  story.heartbeats = {'a'};
  story.phases['a'] = Phase::kIdle;
  story.pass(7s);
  CHECK(story.job.state() == JobPhase::kGathering);
  if (GENERATE(true, false)) {
    story.join('b', std::nullopt, 'y', 1, {}, success(1));
    CHECK(story.job.state() == JobPhase::kEnded);
    CHECK(story.last('a').end->exit_code == 0);
  } else {
    story.pass(4s);
    CHECK(story.job.state() == JobPhase::kRunning);
  }
}

TEST_CASE("a node comes back with its success to the seat it had, whatever its --node-rank") {
  Story story(elastic(2, 2));
  story.join('a', 1);
  story.join('b');
  REQUIRE(story.last('b').seat->node_rank == NodeRank(0));
  story.tell('a', Phase::kRunning);
  story.tell('b', Phase::kSucceeded);
  story.lose('a');
  story.join('c', 1);  // somebody starts it anew, in the meantime
  const Success success{.generation = story.job.generation(),
                        .node_rank = NodeRank(1),
                        .nodes = 2,
                        .coordinator = kCoordinator};
  story.join('d', 1, 'a', 1, {}, success);
  CHECK(story.expelled('d').empty());
  CHECK(story.job.state() == JobPhase::kEnded);
  CHECK(story.last('d').end->exit_code == 0);
}

TEST_CASE("a node that is gone after its workers succeeded is missed by name in the next generation") {
  const bool is_stopping = GENERATE(false, true);
  Story story = running(fixed(2, 1), "ab");
  story.tell('a', Phase::kSucceeded);
  if (!is_stopping) story.lose('a');
  story.fail('b', 7);
  if (is_stopping) story.lose('a');
  story.tell('b', Phase::kIdle);
  CHECK(story.job.state() == JobPhase::kGathering);
  CHECK(
      story.job.describe(story.now) ==
      "1 of 2 nodes are here: node 1 (b, 10.0.0.2); missing: node rank 0 (node 0 (a, 10.0.0.1) was lost: its "
      "connection was closed)");
}

TEST_CASE(
    "where only lost nodes are missing for a success, the generation is not given up before they may be "
    "back") {
  const bool was_silent = GENERATE(false, true);
  const int restarts = GENERATE(0, 1);
  Story story = running(fixed(3, restarts), "abc");
  for (const char name : {'a', 'b'})
    story.phases[name] = Phase::kSucceeded, story.tell(name, Phase::kSucceeded);
  story.heartbeats = {'a', 'b'};
  if (!was_silent) story.lose('c');
  story.pass(was_silent ? 14s : 9s);
  CHECK(story.job.state() == JobPhase::kStopping);
  CHECK(story.last('a').kind == OrderKind::kWait);
  SECTION("it has succeeded") {
    story.join('z', std::nullopt, 'c', 1, {}, Success{Generation(1), NodeRank(2), 3, kCoordinator});
    CHECK(story.job.end().exit_code == 0);
    CHECK(story.job.generation() == Generation(1));
    story.tell('z', Phase::kSucceeded);
    for (const char name : {'a', 'b', 'z'}) CHECK(story.last(name).end == JobEnd{});
  }
  SECTION("it has not") {
    story.join('z', std::nullopt, 'c', 1);
    CHECK(story.job.generation() == Generation(1 + static_cast<std::uint32_t>(restarts)));
    CHECK((story.job.state() == JobPhase::kEnded) == (restarts == 0));
  }
  SECTION("it is gone") {
    story.pass(1s);
    CHECK(story.job.state() == (restarts == 0 ? JobPhase::kEnded : JobPhase::kGathering));
    if (restarts == 0) return;
    // Nobody has begun anything since.
    story.join('z', std::nullopt, 'c', 1, {}, Success{Generation(1), NodeRank(2), 3, kCoordinator});
    CHECK(story.job.end() == JobEnd{.restarts_used = 1});
    CHECK(story.job.state() == JobPhase::kEnded);
  }
}

TEST_CASE("a lost node is not waited for where another has ended without success") {
  Story story = running(fixed(3), "abc");
  story.tell('a', Phase::kSucceeded);
  story.lose('c');
  story.tell('b', Phase::kIdle);
  story.heartbeats = {'a', 'b'};
  story.phases['a'] = Phase::kSucceeded;
  story.pass(5s);
  CHECK(story.job.end().exit_code == 75);
}

TEST_CASE("a node that succeeded keeps its connection when it is silent, and is told the end there") {
  Story story = running(fixed(2), "ab");
  story.tell('a', Phase::kSucceeded);
  story.heartbeats = {'b'};
  story.phases['b'] = Phase::kRunning;
  story.pass(60s);
  CHECK(story.job.state() == JobPhase::kRunning);
  CHECK(story.expelled('a').empty());
  story.tell('b', Phase::kSucceeded);
  CHECK(story.last('a').end == JobEnd{});
}

TEST_CASE("a silent node that succeeded is in no next generation") {
  Story story = running(elastic(1, 2), "ab");
  story.tell('a', Phase::kSucceeded);
  story.heartbeats = {'b'};
  story.phases['b'] = Phase::kRunning;
  story.pass(60s);
  story.tell('b', Phase::kIdle);
  CHECK(story.job.generation() == Generation(2));
  CHECK(story.last('b').seat->nodes == 1);
}

TEST_CASE("after a success, who was cut off may come back to hear of it") {
  Story story = running(fixed(2), "ab");
  story.tell('a', Phase::kSucceeded);
  story.lose('a');
  story.tell('b', Phase::kSucceeded);
  CHECK(story.job.awaits_return(story.now));
  CHECK(story.job.awaited() == std::vector<std::string>{"node 1 (b, 10.0.0.2)", "node 0 (a, 10.0.0.1)"});
  SECTION("it comes") {
    story.join('z', std::nullopt, 'a', 1, {}, Success{Generation(1), NodeRank(0), 2, kCoordinator});
    CHECK_FALSE(story.job.awaits_return(story.now));
    story.tell('z', Phase::kSucceeded);
    CHECK(story.last('z').end == JobEnd{});
  }
  SECTION("it does not") { CHECK_FALSE(story.job.awaits_return(story.now + 10s)); }
}

TEST_CASE("after a failure, who had succeeded and was cut off may come back to hear of it") {
  Story story = running(fixed(2), "ab");
  story.tell('b', Phase::kSucceeded);
  const bool is_before = GENERATE(true, false);
  if (is_before) story.lose('b');
  story.fail('a', 4);
  story.tell('a', Phase::kIdle);
  REQUIRE(story.job.state() == JobPhase::kEnded);
  if (!is_before) story.lose('b');
  CHECK(story.job.awaits_return(story.now));
  CHECK_THAT(story.job.awaited(), Catch::Matchers::VectorContains(std::string("node 1 (b, 10.0.0.2)")));
  story.join('z', std::nullopt, 'b', 1, {}, Success{Generation(1), NodeRank(1), 2, kCoordinator});
  CHECK_FALSE(story.job.awaits_return(story.now));
  story.tell('z', Phase::kSucceeded);
  CHECK(story.last('z').end->exit_code == 4);
}

TEST_CASE("after a failure, nobody waits for a lost node whose workers ran") {
  Story story = running(fixed(2), "ab");
  story.lose('b');
  story.tell('a', Phase::kIdle);
  story.wait_out_the_lease("a");
  REQUIRE(story.job.state() == JobPhase::kEnded);
  CHECK_FALSE(story.job.awaits_return(story.now));
}

TEST_CASE("after a success, who has not said that it heard of it may come back to hear") {
  const bool has_heard = GENERATE(false, true);
  Story story = running(fixed(2), "ab");
  story.tell('a', Phase::kSucceeded);
  story.tell('b', Phase::kSucceeded);
  story.tell('a',
             Status{.generation = Generation(1), .phase = Phase::kSucceeded, .has_heard_end = has_heard});
  story.lose('a');
  CHECK(story.job.awaits_return(story.now) == !has_heard);
}

TEST_CASE("a node that comes back with its success has its seat again, and the world does not grow for it") {
  Story story = running(elastic(1, 2), "ab");
  story.tell('a', Phase::kSucceeded);
  story.lose('a');
  story.join('z', std::nullopt, 'a', 1, {}, Success{Generation(1), NodeRank(0), 2, kCoordinator});
  story.heartbeats = {'b', 'z'};
  story.phases = {{'b', Phase::kRunning}, {'z', Phase::kSucceeded}};
  story.pass(10s);
  CHECK(story.job.state() == JobPhase::kRunning);
  CHECK(story.last('z').kind == OrderKind::kRun);
  CHECK_FALSE(story.last('z').seat);
}

TEST_CASE("a coordinator that is new learns of a success from the nodes") {
  Story story(fixed(2));
  story.join('a', std::nullopt, 'x', 4, {}, Success{Generation(4), NodeRank(0), 2, "old"});
  CHECK(story.job.state() == JobPhase::kGathering);
  SECTION("all have succeeded") {
    story.join('b', std::nullopt, 'y', 4, {}, Success{Generation(4), NodeRank(1), 2, "old"});
    CHECK(story.job.end() == JobEnd{});
    CHECK(story.job.state() == JobPhase::kEnded);
  }
  SECTION("one has not") {
    story.join('b', std::nullopt, 'y', 4);
    story.wait_out_the_lease("ab");
    CHECK(story.job.generation() == Generation(5));
  }
  SECTION("one knows of a later generation") {
    story.join('b', std::nullopt, 'y', 5, {}, Success{Generation(4), NodeRank(1), 2, "old"});
    story.wait_out_the_lease("ab");
    CHECK(story.job.generation() == Generation(6));
  }
}

TEST_CASE("a node whose workers have all succeeded may be told to stop, and the others go on") {
  Story story = running(fixed(2), "ab");
  story.tell('a', Phase::kSucceeded);
  story.tell('a', Status{.generation = Generation(1), .phase = Phase::kSucceeded, .leaving_signal = SIGTERM});
  story.lose('a');
  CHECK(story.job.state() == JobPhase::kRunning);
  story.tell('b', Phase::kSucceeded);
  CHECK(story.last('b').end->exit_code == 0);
}

TEST_CASE("a node that has succeeded, and is silent when the job ends, keeps its connection to hear of it") {
  const bool is_failure = GENERATE(false, true);
  INFO(is_failure);
  Story story = running(fixed(2), "ab");
  story.tell('b', Phase::kSucceeded);
  story.heartbeats = {'a'};
  story.phases['a'] = Phase::kRunning;
  story.pass(20s);
  if (is_failure) {
    story.fail('a', 4);
    story.tell('a', Phase::kIdle);
  } else {
    story.tell('a', Phase::kSucceeded);
  }
  REQUIRE(story.job.state() == JobPhase::kEnded);
  CHECK(story.last('b').kind == OrderKind::kEnd);
  story.heartbeats.clear();
  story.tell('a', Status{.generation = Generation(1), .phase = Phase::kSucceeded, .has_heard_end = true});
  story.lose('a');
  story.pass(8s);
  CHECK(story.expelled('b').empty());
  SECTION("it reads it there") {
    story.tell('b', Status{.generation = Generation(1), .phase = Phase::kSucceeded, .has_heard_end = true});
    story.lose('b');
  }
  SECTION("it had left its connection, and comes back") {
    story.join('z', std::nullopt, 'b', 1, {}, Success{Generation(1), NodeRank(1), 2, kCoordinator});
    story.tell('z', Status{.generation = Generation(1), .phase = Phase::kSucceeded});
    CHECK(story.last('z').kind == OrderKind::kEnd);
    story.tell('z', Status{.generation = Generation(1), .phase = Phase::kSucceeded, .has_heard_end = true});
    story.lose('z');
  }
  SECTION("it is gone") {
    story.pass(5s);
    CHECK_FALSE(story.expelled('b').empty());
  }
  CHECK_FALSE(story.job.awaits_return(story.now));
}

TEST_CASE("a node that has said that it goes is not kept to hear the end, where its connection lies open") {
  const bool has_heard = GENERATE(true, false);
  INFO(has_heard);
  Story story = running(fixed(2), "ab");
  story.tell('b', Phase::kSucceeded);
  const Status last{.generation = Generation(1), .phase = Phase::kSucceeded};
  if (!has_heard) {
    Status leaves = last;
    leaves.leaving_signal = SIGTERM;
    story.tell('b', leaves);
  }
  story.tell('a', Phase::kSucceeded);
  REQUIRE(story.job.state() == JobPhase::kEnded);
  if (has_heard) {
    Status hears = last;
    hears.has_heard_end = true;
    story.tell('b', hears);
  }
  story.pass(Timing().liveness());
  CHECK_FALSE(story.expelled('b').empty());
}

}  // namespace ddprun::membership
