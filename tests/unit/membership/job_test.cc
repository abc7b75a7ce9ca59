#include "rendezvous/membership/job.h"

#include "tests/support/catch.h"

#include <csignal>
#include <string>
#include <vector>

namespace ddprun::membership {

using namespace std::chrono_literals;

namespace {

/// A coordinator and nodes a, b, c … that answer at once and in order.
class Story {
 public:
  explicit Story(WorldSpec spec, Timing timing = {}) : job(std::move(spec), timing, now) {}

  void join(char name, std::optional<int> pin = std::nullopt, std::optional<char> was = std::nullopt,
            std::uint32_t heard_of = 0, std::string cut_off = {}, std::optional<Success> succeeded = {}) {
    NodeFacts facts{
        .id = id(name), .host = std::string(1, name), .address = "10.0.0." + std::to_string(name - 'a' + 1)};
    if (pin) facts.pinned = NodeRank(*pin);
    if (was) facts.replaces = id(*was);
    facts.last_generation = Generation(heard_of);
    facts.cut_off = std::move(cut_off);
    facts.succeeded = succeeded;
    facts.hosts_coordinator = host_of_coordinator == name;
    take(job.joined(facts, now));
  }
  void tell(char name, Status status) {
    status.sequence = ++sequence;
    take(job.status(id(name), status, now));
  }
  void tell(char name, Phase phase) { tell(name, Status{.generation = job.generation(), .phase = phase}); }
  void fail(char name, int exit_code, bool do_not_restart = false, bool is_symptom = false) {
    NodeFailure failure{
        .host = std::string(1, name), .exit_code = exit_code, .what = "rank 0 exited with code 7"};
    if (do_not_restart) failure.final_because = "exit code 93 means: do not restart";
    failure.is_symptom = is_symptom;
    tell(name, Status{.generation = job.generation(), .phase = Phase::kStopping, .failure = failure});
  }
  void drain(int rank) { take(job.drain(NodeRank(rank), now)); }
  void lose(char name, Loss loss = Loss::kClosed) { take(job.lost(id(name), loss, now)); }
  void end_for_all(const JobEnd& end) { take(job.end_for_all(end, now)); }
  void end_at_once() { take(job.end_at_once(now)); }
  /// Until workers of a lost node are certain to be gone; `names` have stopped theirs.
  void wait_out_the_lease(const std::string& names) {
    heartbeats.assign(names.begin(), names.end());
    pass(5s);
  }
  void pass(Duration time) {
    for (const TimePoint until = now + time; now < until;) {
      now += 250ms;
      for (const char name : heartbeats) tell(name, phases[name]);
      take(job.tick(now));
    }
  }

  [[nodiscard]] const Order& last(char name) { return orders[name]; }
  [[nodiscard]] std::string expelled(char name) { return expulsions[name]; }

  TimePoint now{};
  Job job;
  std::vector<char> heartbeats;  ///< who speaks while time passes
  std::map<char, Phase> phases;
  std::optional<char> host_of_coordinator;

 private:
  static MemberId id(char name) { return MemberId(static_cast<std::uint64_t>(name)); }
  void take(const JobActions& actions) {
    for (const JobAction& action : actions) {
      if (const auto* send = std::get_if<SendOrder>(&action))
        orders[static_cast<char>(send->to.value())] = send->order;
      if (const auto* expel = std::get_if<Expel>(&action)) {
        expulsions[static_cast<char>(expel->who.value())] = expel->reason;
      }
    }
  }

  std::map<char, Order> orders;
  std::map<char, std::string> expulsions;
  std::uint64_t sequence = 0;
};

WorldSpec fixed(int nodes, int restarts = 0) {
  return {.min_nodes = nodes, .max_nodes = nodes, .max_restarts = restarts};
}
WorldSpec elastic(int min, int max) { return {.min_nodes = min, .max_nodes = max}; }

Story running(WorldSpec spec, const std::string& names, Duration debounce = 2s) {
  Story story(std::move(spec), {.debounce = debounce});
  for (const char name : names) story.join(name);
  for (const char name : names) story.tell(name, Phase::kRunning);
  return story;
}

}  // namespace

TEST_CASE("the last node to join starts the job on all nodes") {
  Story story(fixed(2));
  story.join('b');
  CHECK(story.job.state() == JobState::kGathering);
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
  REQUIRE(story.job.state() == JobState::kEnded);
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
  REQUIRE(story.job.state() == JobState::kEnded);
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
  REQUIRE(story.job.state() == JobState::kEnded);
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

TEST_CASE("a --node-rank outside the world is refused with the ranks there are") {
  Story story(fixed(2));
  story.join('c', 2);
  CHECK(story.expelled('c') ==
        "node c (10.0.0.3) asks for node rank 2, but the ranks of at most 2 nodes are 0 to 1; check "
        "--node-rank and --nnodes");
}

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
    const NodeFailure failure{
        .exit_code = 7, .what = "rank 0 exited with code 7", .diagnosis = "ValueError: x"};
    story.tell('a',
               Status{.generation = story.job.generation(), .phase = Phase::kStopping, .failure = failure});
    CHECK(story.last('a').text == "rank 0 exited with code 7 on node 0 (a, 10.0.0.1)");
    story.tell('a', Phase::kIdle);
  };
  fail();
  CHECK(story.last('a').restart->why == "rank 0 exited with code 7 on node 0 (a, 10.0.0.1): ValueError: x");
  story.tell('a', Phase::kRunning);
  fail();
  CHECK(story.last('a').end->root_cause->diagnosis == "ValueError: x");
}

TEST_CASE("one restart budget serves the whole job") {
  Story story = running(fixed(2, 1), "ab");
  story.fail('a', 7);
  story.tell('a', Phase::kIdle);
  story.tell('b', Phase::kIdle);
  CHECK(story.job.generation() == Generation(2));
  CHECK(story.last('b').seat->restart_count == 1);
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
  CHECK(story.last('a').end->why ==
        "rank 0 exited with code 7 on node 0 (a, 10.0.0.1); exit code 93 means: do not restart");
}

TEST_CASE("the next generation waits until no worker of the last one is alive") {
  Story story = running(fixed(2, 3), "ab");
  story.fail('a', 7);
  story.tell('a', Phase::kIdle);
  CHECK(story.job.state() == JobState::kStopping);
  story.tell('b', Phase::kStopping);
  CHECK(story.job.state() == JobState::kStopping);
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
  story.tell('a', Phase::kIdle);
  story.phases['a'] = Phase::kIdle;
  story.wait_out_the_lease("a");
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
  NodeFailure failure{.host = "a", .exit_code = 1, .what = "rank 0 (pid 9) exited with code 1: lost a peer"};
  failure.is_symptom = true;
  failure.lost_a_peer = lost_a_peer;
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

TEST_CASE(
    "an exit code that means do not restart is the end, also where a node was lost at the same moment") {
  Story story = running(GENERATE(true, false) ? fixed(2, 1) : elastic(1, 2), "ab");
  story.fail('a', 93, true);
  story.lose('b');
  story.tell('a', Phase::kIdle);
  story.phases['a'] = Phase::kIdle;
  story.wait_out_the_lease("a");
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
  story.tell('a', Phase::kIdle);
  story.phases['a'] = Phase::kIdle;
  story.wait_out_the_lease("a");
  story.wait_out_the_lease("a");
  REQUIRE(story.last('a').kind == OrderKind::kEnd);
  CHECK(story.last('a').end->exit_code == 75);
}

TEST_CASE("a success of a generation that another coordinator began takes nobody's seat") {
  Story story = running(fixed(2), "ab");
  const Success old{
      .generation = story.job.generation(), .node_rank = NodeRank(1), .nodes = 2, .coordinator = "old"};
  story.join('z', std::nullopt, 'y', 1, {}, old);
  story.tell('a', Phase::kSucceeded);
  CHECK(story.job.state() == JobState::kRunning);
  CHECK(story.expelled('b').empty());
  story.tell('b', Phase::kSucceeded);
  CHECK(story.job.state() == JobState::kEnded);
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
  CHECK(story.job.state() == JobState::kGathering);
  if (GENERATE(true, false)) {
    story.join('b', std::nullopt, 'y', 1, {}, success(1));
    CHECK(story.job.state() == JobState::kEnded);
    CHECK(story.last('a').end->exit_code == 0);
  } else {
    story.pass(4s);
    CHECK(story.job.state() == JobState::kRunning);
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
  const Success success{.generation = story.job.generation(), .node_rank = NodeRank(1), .nodes = 2};
  story.join('d', 1, 'a', 1, {}, success);
  CHECK(story.expelled('d').empty());
  CHECK(story.job.state() == JobState::kEnded);
  CHECK(story.last('d').end->exit_code == 0);
}

TEST_CASE("a member whose node has its seat again under another name is sent away") {
  Story story = running(fixed(2), "ab");
  const Success mine{.generation = story.job.generation(), .node_rank = NodeRank(1), .nodes = 2};
  story.join('d', std::nullopt, 'c', 1, {}, mine);
  CHECK_THAT(story.expelled('b'), Catch::Matchers::Contains("has come back"));
  story.tell('a', Phase::kSucceeded);
  CHECK(story.job.state() == JobState::kEnded);
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
  CHECK(story.job.describe(story.now) ==
        "1 of 2 nodes are here: node b (10.0.0.2); missing: node rank 0 (node 0 (a, 10.0.0.1) was lost: its "
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

TEST_CASE("when the coordinator itself stood still, nobody is blamed") {
  Story story = running(fixed(2), "ab");
  story.now += 60s;
  story.tell('a', Phase::kRunning);
  CHECK(story.job.state() == JobState::kRunning);
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
    story.tell(
        'b',
        Status{.generation = Generation(1), .phase = Phase::kStopping, .failure = NodeFailure{.what = what}});
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

TEST_CASE("after the end of a connection, in order or not, the lease of that node is waited for") {
  const Loss loss = GENERATE(Loss::kClosed, Loss::kReset);
  Story story = running(elastic(1, 2), "ab");
  story.lose('a', loss);
  story.tell('b', Phase::kIdle);
  CHECK(story.job.state() == JobState::kStopping);
  story.heartbeats = {'b'};
  story.phases['b'] = Phase::kIdle;
  story.pass(4750ms);
  CHECK(story.job.state() == JobState::kStopping);
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

TEST_CASE("a node that is gone after its workers succeeded is no cause of another's failure") {
  Story story = running(fixed(2), "ab");
  story.tell('a', Phase::kSucceeded);
  story.fail('b', 7);
  story.lose('a');
  story.tell('b', Phase::kIdle);
  CHECK(story.last('b').end->exit_code == 7);
}

TEST_CASE("a node that is gone after its workers succeeded is missed by name in the next generation") {
  const bool is_stopping = GENERATE(false, true);
  Story story = running(fixed(2, 1), "ab");
  story.tell('a', Phase::kSucceeded);
  if (!is_stopping) story.lose('a');
  story.fail('b', 7);
  if (is_stopping) story.lose('a');
  story.tell('b', Phase::kIdle);
  CHECK(story.job.state() == JobState::kGathering);
  CHECK(story.job.describe(story.now) ==
        "1 of 2 nodes are here: node b (10.0.0.2); missing: node rank 0 (node 0 (a, 10.0.0.1) was lost: its "
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
  CHECK(story.job.state() == JobState::kStopping);
  CHECK(story.last('a').kind == OrderKind::kWait);
  SECTION("it has succeeded") {
    story.join('z', std::nullopt, 'c', 1, {}, Success{Generation(1), NodeRank(2), 3});
    CHECK(story.job.end().exit_code == 0);
    CHECK(story.job.generation() == Generation(1));
    story.tell('z', Phase::kSucceeded);
    for (const char name : {'a', 'b', 'z'}) CHECK(story.last(name).end == JobEnd{});
  }
  SECTION("it has not") {
    story.join('z', std::nullopt, 'c', 1);
    CHECK(story.job.generation() == Generation(1 + static_cast<std::uint32_t>(restarts)));
    CHECK((story.job.state() == JobState::kEnded) == (restarts == 0));
  }
  SECTION("it is gone") {
    story.pass(1s);
    CHECK(story.job.state() == (restarts == 0 ? JobState::kEnded : JobState::kGathering));
    if (restarts == 0) return;
    // Nobody has begun anything since.
    story.join('z', std::nullopt, 'c', 1, {}, Success{Generation(1), NodeRank(2), 3});
    CHECK(story.job.end() == JobEnd{.restarts_used = 1});
    CHECK(story.job.state() == JobState::kEnded);
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
  CHECK(story.job.state() == JobState::kRunning);
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
    story.join('z', std::nullopt, 'a', 1, {}, Success{Generation(1), NodeRank(0), 2});
    CHECK_FALSE(story.job.awaits_return(story.now));
    story.tell('z', Phase::kSucceeded);
    CHECK(story.last('z').end == JobEnd{});
  }
  SECTION("it does not") { CHECK_FALSE(story.job.awaits_return(story.now + 10s)); }
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
  story.join('z', std::nullopt, 'a', 1, {}, Success{Generation(1), NodeRank(0), 2});
  story.heartbeats = {'b', 'z'};
  story.phases = {{'b', Phase::kRunning}, {'z', Phase::kSucceeded}};
  story.pass(10s);
  CHECK(story.job.state() == JobState::kRunning);
  CHECK(story.last('z').kind == OrderKind::kRun);
  CHECK_FALSE(story.last('z').seat);
}

TEST_CASE("a coordinator that is new learns of a success from the nodes") {
  Story story(fixed(2));
  story.join('a', std::nullopt, 'x', 4, {}, Success{Generation(4), NodeRank(0), 2});
  CHECK(story.job.state() == JobState::kGathering);
  SECTION("all have succeeded") {
    story.join('b', std::nullopt, 'y', 4, {}, Success{Generation(4), NodeRank(1), 2});
    CHECK(story.job.end() == JobEnd{});
    CHECK(story.job.state() == JobState::kEnded);
  }
  SECTION("one has not") {
    story.join('b', std::nullopt, 'y', 4);
    story.wait_out_the_lease("ab");
    CHECK(story.job.generation() == Generation(5));
  }
  SECTION("one knows of a later generation") {
    story.join('b', std::nullopt, 'y', 5, {}, Success{Generation(4), NodeRank(1), 2});
    story.wait_out_the_lease("ab");
    CHECK(story.job.generation() == Generation(6));
  }
}

TEST_CASE("a node whose workers have all succeeded may be told to stop, and the others go on") {
  Story story = running(fixed(2), "ab");
  story.tell('a', Phase::kSucceeded);
  story.tell('a', Status{.generation = Generation(1), .phase = Phase::kSucceeded, .leaving_signal = SIGTERM});
  story.lose('a');
  CHECK(story.job.state() == JobState::kRunning);
  story.tell('b', Phase::kSucceeded);
  CHECK(story.last('b').end->exit_code == 0);
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
  CHECK(story.job.state() == JobState::kRunning);
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
  SECTION("by a signal") {
    story.tell('a', Status{.generation = Generation(1), .phase = Phase::kIdle, .leaving_signal = SIGTERM});
  }
  SECTION("by ddprun drain") {
    story.drain(0);
    CHECK(story.last('b').text.find("stay") == std::string::npos);
    story.tell('a', Phase::kIdle);
  }
  story.tell('b', Phase::kIdle);
  REQUIRE(story.last('b').end);
  CHECK(story.last('b').end->why ==
        "node 0 (a, 10.0.0.1) was told to stop by SIGTERM; the coordinator runs there, and the job ends with "
        "it");
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
  CHECK(story.job.state() == JobState::kGathering);  // others may still run workers of it
  story.wait_out_the_lease("ab");
  REQUIRE(story.job.generation() == Generation(5));
  CHECK(story.last('b').seat->restart_count == 4);
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
  CHECK(story.job.state() == JobState::kEnded);
  CHECK(story.last('b').end->exit_code == 130);
  story.lose('a');
  CHECK(story.job.awaited() == std::vector<std::string>{"node 1 (b, 10.0.0.2)"});
}

TEST_CASE("a job that nobody has ended does not end at once") {
  Story story = running(fixed(2), "ab");
  story.end_at_once();
  CHECK(story.job.state() == JobState::kRunning);
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

TEST_CASE("a node that is not there cannot be drained, and those that are there are named") {
  const Story story = running(fixed(2), "ab");
  CHECK(story.job.why_not_drained(NodeRank(7)) ==
        "no node of rank 7 runs in job none; running node ranks: 0, 1");
}

}  // namespace ddprun::membership
