#include "tests/support/catch.h"
#include "tests/unit/membership/job_story.h"

#include <csignal>

// A failure of no worker, such as a --job-timeout of one node.

namespace ddprun::membership {

using namespace std::chrono_literals;
using testing::elastic;
using testing::fixed;
using testing::running;
using testing::Story;

namespace {

const NodeFailure kTimeOut{.exit_code = 75, .what = "the job is not done after 5 s"};

}  // namespace

TEST_CASE("a failure of no worker ends a job that is just being stopped, with what that is stopped for") {
  for (const char timed_out : {'a', 'b'}) {
    for (const bool is_symptom : {false, true}) {
      Story story = running(fixed(2, 5), "ab");
      story.fail('a', 7, false, is_symptom);
      story.tell(timed_out,
                 Status{.generation = story.job.generation(), .phase = Phase::kIdle, .failure = kTimeOut});
      story.lose(timed_out);
      story.tell(timed_out == 'a' ? 'b' : 'a', Phase::kIdle);
      INFO(timed_out << is_symptom);
      REQUIRE(story.job.end().exit_code == 7);
      REQUIRE(story.job.end().root_cause);
      CHECK(story.job.end().root_cause->final_because.starts_with("the job is not done after 5 s on node "));
    }
  }
}

TEST_CASE("a cause that shows up after a failure of no worker is that of the symptom, not of a time-out") {
  const bool has_symptom = GENERATE(true, false);
  Story story = running(fixed(2, 5), "ab");
  if (has_symptom) story.fail('a', 1, false, true);
  story.tell('b',
             Status{.generation = story.job.generation(), .phase = Phase::kStopping, .failure = kTimeOut});
  story.fail('a', 9);
  story.tell('a', Phase::kIdle);
  story.tell('b', Phase::kIdle);
  CHECK(story.job.end().exit_code == (has_symptom ? 9 : 75));
  CHECK(story.job.end().root_cause.has_value() == has_symptom);
}

TEST_CASE("a node that leaves is still there while it stops its workers") {
  Story story = running(fixed(1, 5), "a");
  CHECK(story.job.describe(story.now) == "1 of 1 nodes are here: node 0 (a, 10.0.0.1)");
  story.tell('a', Status{.generation = Generation(1), .phase = Phase::kStopping, .leaving_signal = SIGTERM});
  CHECK(story.job.describe(story.now) ==
        "0 of 1 nodes are here; still stopping their workers: node 0 (a, 10.0.0.1)");
}

TEST_CASE("the time of a node that leaves is not the others'") {
  Story story = running(elastic(1, 2), "ab");
  story.drain(1);
  story.tell('b',
             Status{.generation = story.job.generation(), .phase = Phase::kStopping, .failure = kTimeOut});
  story.tell('a', Phase::kIdle);
  story.tell('b', Phase::kIdle);
  CHECK(story.job.generation() == Generation(2));
  CHECK(story.last('b').kind == OrderKind::kEnd);
}

TEST_CASE("a node that comes with the word that the job is to end starts none") {
  SECTION("to a coordinator that it had left") {
    Story story = running(fixed(2, 5), "ab");
    story.fail('a', 7);
    story.lose('b', Loss::kReset);
    story.tell('a', Phase::kIdle);
    story.join('z', std::nullopt, 'b', 1, {}, {}, Status{.failure = kTimeOut});
    CHECK(story.job.state() == JobPhase::kEnded);
    CHECK(story.job.end().exit_code == 7);
    CHECK(story.job.generation() == Generation(1));
  }
  SECTION("to one that is new") {
    Story story(fixed(2, 5));
    story.join('b', std::nullopt, 'a', 3, {}, {}, Status{.failure = kTimeOut});
    CHECK(story.job.state() == JobPhase::kEnded);
    CHECK(story.job.end().exit_code == 75);
    CHECK(story.job.awaits_return(story.now));  // of others of that generation
    SECTION("and the others come to hear it") {
      story.join('d', std::nullopt, 'c', 3);
      story.tell('d', Phase::kIdle);
      CHECK(story.last('d').kind == OrderKind::kEnd);
    }
    SECTION("and the others do not come") { story.now += Timing().rejoin_timeout; }
    CHECK_FALSE(story.job.awaits_return(story.now));
  }
}

TEST_CASE("a new coordinator that ends at once waits for the others, however many nodes the world may have") {
  SECTION("of an elastic world, of which nobody knows how many there were") {
    Story story(elastic(1, 3));
    story.join('b', std::nullopt, 'a', 3, {}, {}, Status{.failure = kTimeOut});
    CHECK(story.job.awaits_return(story.now));
    story.join('d', std::nullopt, 'c', 3);
    story.join('f', std::nullopt, 'e', 3);
    CHECK_FALSE(story.job.awaits_return(story.now));  // there were no more than three
  }
  SECTION("and counts no node twice") {
    Story story(fixed(2, 5));
    story.join('b', std::nullopt, 'a', 3);
    story.lose('b', Loss::kReset);
    story.join('c', std::nullopt, 'b', 3, {}, {}, Status{.failure = kTimeOut});
    CHECK(story.job.state() == JobPhase::kEnded);
    CHECK(story.job.awaits_return(story.now));
  }
  SECTION("nor one that is new in the place of another") {
    Story story(fixed(2, 5));
    story.host_of_coordinator = 'a';
    story.join('a');
    story.join('c', std::nullopt, 'b', 3, {}, {}, Status{.failure = kTimeOut});
    CHECK(story.job.state() == JobPhase::kEnded);
    CHECK_FALSE(story.job.awaits_return(story.now));
  }
  SECTION("nor those who have left on purpose") {
    Story story(fixed(2, 5));
    story.join('b', std::nullopt, 'a', 3);
    story.join('d', std::nullopt, 'c', 3);
    for (const char name : {'b', 'd'}) {
      story.tell(name, Status{.leaving_signal = SIGTERM});
      story.lose(name);
    }
    story.end_for_all({.exit_code = 75, .why = "this node was told to stop"});
    CHECK_FALSE(story.job.awaits_return(story.now));
  }
  SECTION("but not where nobody was before") {
    Story story(elastic(1, 3));
    story.host_of_coordinator = 'a';
    story.join('a');
    story.tell('a', Status{.failure = kTimeOut});
    CHECK(story.job.state() == JobPhase::kEnded);
    CHECK_FALSE(story.job.awaits_return(story.now));
  }
}

TEST_CASE("the end of a coordinator's wait for who may come is one of its moments to look") {
  Story story(fixed(2, 5), {.heartbeat = 60s});
  story.join('b', std::nullopt, 'a', 3, {}, {}, Status{.failure = kTimeOut});
  const TimePoint over = story.now + Timing().rejoin_timeout;
  story.now = over - 1s;
  CHECK(story.job.next_wake(story.now) == over);
}

TEST_CASE("a lost node explains a symptom, also where the time of a third runs out meanwhile") {
  Story story = running(fixed(3, 0), "abc");
  story.fail('b', 1, false, true);
  story.tell('a',
             Status{.generation = story.job.generation(), .phase = Phase::kStopping, .failure = kTimeOut});
  for (const char name : {'a', 'b'}) story.tell(name, Phase::kIdle), story.phases[name] = Phase::kIdle;
  story.heartbeats = {'a', 'b'};
  story.pass(6s);  // and nothing is heard of c
  REQUIRE(story.job.state() == JobPhase::kEnded);
  CHECK(story.job.end().exit_code == 75);
  CHECK_FALSE(story.job.end().root_cause);
  CHECK_THAT(story.job.end().why,
             Catch::Matchers::StartsWith("node 2 (c, 10.0.0.3) was lost: ") &&
                 Catch::Matchers::Contains("; meanwhile rank 0 ") &&
                 Catch::Matchers::EndsWith("; the job is not done after 5 s on node 0 (a, 10.0.0.1)"));
}

TEST_CASE("a success that is complete is the end, whatever else comes with its last word") {
  const auto success = [](int rank) { return Success{Generation(3), NodeRank(rank), 2, "before"}; };
  const Status word = GENERATE(Status{.failure = kTimeOut}, Status{.leaving_signal = SIGTERM});
  Story story(fixed(2));
  story.join('a', std::nullopt, 'c', 3, {}, success(0));
  story.join('b', std::nullopt, 'd', 3, {}, success(1), word);
  CHECK(story.job.state() == JobPhase::kEnded);
  CHECK(story.job.end().exit_code == 0);
}

TEST_CASE("a node that is done, and whose time is over, is waited for to hear the end") {
  const bool is_lost_before = GENERATE(true, false);
  Story story = running(fixed(2), "ab");
  story.tell('b', Phase::kSucceeded);
  story.tell('b',
             Status{.generation = story.job.generation(), .phase = Phase::kSucceeded, .failure = kTimeOut});
  if (is_lost_before) story.lose('b', Loss::kReset);
  story.tell('a', Phase::kIdle);
  if (!is_lost_before) story.lose('b', Loss::kReset);
  CHECK(story.job.end().exit_code == 75);
  CHECK(story.job.awaits_return(story.now));
}

TEST_CASE("a node that comes back between two generations keeps its rank, and what it ends is the job") {
  Story story = running(fixed(2, 5), "ab");
  for (int times : {1, 2}) {  // there is a pause after the second
    INFO(times);
    story.fail('a', 7);
    story.tell('b', Phase::kIdle);
    story.tell('a', Phase::kIdle);
  }
  story.lose('a', Loss::kReset);
  story.join('y', std::nullopt, 'a');
  SECTION("its rank") {
    story.heartbeats = {'y', 'b'};
    story.pass(10s);
    CHECK(story.last('y').seat->node_rank == NodeRank(0));
    CHECK(story.last('b').seat->node_rank == NodeRank(1));
  }
  SECTION("the job") {
    story.tell('y', Status{.generation = story.job.generation(), .phase = Phase::kIdle, .failure = kTimeOut});
    REQUIRE(story.last('b').end);
    CHECK(story.last('b').end->why == "the job is not done after 5 s on node 0 (y, 10.0.0.25)");
  }
}

TEST_CASE("a failure of no worker ends the job between two generations, where the node had a part in one") {
  for (const bool is_spare : {false, true}) {
    Story story = running(fixed(2, 5), "ab");
    story.join('c');            // has no seat
    for (int times : {1, 2}) {  // there is a pause after the second
      INFO(times);
      story.fail('a', 7);
      story.tell('b', Phase::kIdle);
      story.tell('a', Phase::kIdle);
    }
    const char name = is_spare ? 'c' : 'b';
    story.tell(name,
               Status{.generation = story.job.generation(), .phase = Phase::kIdle, .failure = kTimeOut});
    INFO(is_spare);
    CHECK((story.last('a').kind == OrderKind::kEnd) == !is_spare);
    if (is_spare) continue;
    CHECK(story.last('a').end->exit_code == 75);
    CHECK(story.last('a').end->why == "the job is not done after 5 s on node 1 (b, 10.0.0.2)");
    CHECK_FALSE(story.last('a').end->root_cause);
  }
}

}  // namespace ddprun::membership
