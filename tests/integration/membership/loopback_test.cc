#include "rendezvous/membership/auth.h"
#include "rendezvous/membership/messages.h"
#include "tests/integration/membership/loopback_world.h"
#include "tests/support/catch.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <csignal>
#include <optional>

// Coordinator and members over real sockets: who is let in, what everyone is told, how fast.

using namespace ddprun;
using namespace ddprun::membership;
using namespace ddprun::membership::testing;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

JobSpec fixed(int nodes) { return {.run_id = "cifar", .min_nodes = nodes, .max_nodes = nodes}; }
JobSpec elastic(int min, int max) { return {.run_id = "cifar", .min_nodes = min, .max_nodes = max}; }

Timing quick() { return {.debounce = 50ms, .heartbeat = 200ms, .missed_heartbeats = 5}; }

/// As quick, but a round of MIN:MAX waits until MAX are there, however slow the machine.
Timing patient() { return {.debounce = 60s, .heartbeat = 200ms, .missed_heartbeats = 5}; }

NodeFailure failure_with(int code) {
  return {.worker = WorkerEnd{.rank = Rank(1)},
          .host = "b",
          .exit_code = code,
          .what = "rank 1 exited with code 7"};
}

std::string refusal(LoopbackWorld& world, const MemberOptions& options) {
  LoopbackNode& node = world.join(options);
  REQUIRE(world.run_until([&] { return node.failed.has_value(); }, 3s));
  return node.failed->message();
}

/// Says hello as a node that fits the coordinator, and never anything more.
boost::asio::ip::tcp::socket half_joined(LoopbackWorld& world, const std::optional<NodeRank>& pinned) {
  const MemberOptions options = world.fitting("b");
  Hello hello{.run_id = options.spec.run_id,
              .min_nodes = options.spec.min_nodes,
              .max_nodes = options.spec.max_nodes,
              .node = options.node,
              .nonce = make_nonce()};
  hello.node.id = MemberId(7);
  hello.node.pinned = pinned;
  boost::asio::ip::tcp::socket socket(world.io);
  socket.connect({boost::asio::ip::address_v4::loopback(), options.port.value()});
  boost::asio::write(socket, boost::asio::buffer(std::string(kGreeting) + encode(hello)));
  return socket;
}

}  // namespace

TEST_CASE("the last node to join starts all, each with its seat and the address it came by") {
  LoopbackWorld world(fixed(2));
  LoopbackNode& b = world.join("b");
  LoopbackNode& a = world.join("a");
  REQUIRE(world.run_until([&] { return !a.rounds.empty() && !b.rounds.empty(); }));
  CHECK(a.rounds[0].seat.node_rank == NodeRank(0));
  CHECK(b.rounds[0].seat.base_rank == Rank(2));
  CHECK(b.rounds[0].seat.world_size == WorldSize(4));
  CHECK(b.rounds[0].master_addr == "127.0.0.1");
  CHECK(b.rounds[0].master_port == world.coordinator->port());
}

TEST_CASE("every node is told the same end of the job") {
  LoopbackWorld world(fixed(2));
  LoopbackNode& a = world.join("a");
  LoopbackNode& b = world.join("b");
  REQUIRE(world.run_until([&] { return !a.rounds.empty() && !b.rounds.empty(); }));
  b.member->workers_failed(failure_with(7));
  b.member->workers_stopped();
  REQUIRE(world.run_until([&] { return a.end && b.end; }));
  CHECK(*a.end == *b.end);
  CHECK(a.end->exit_code == 7);
  CHECK(a.end->why == "rank 1 exited with code 7 on node 1 (b, 127.0.0.1)");
  CHECK(world.run_until([&] { return world.coordinator->is_done(); }));
}

TEST_CASE("the job succeeds when all nodes have") {
  LoopbackWorld world(fixed(2));
  LoopbackNode& a = world.join("a");
  LoopbackNode& b = world.join("b");
  REQUIRE(world.run_until([&] { return !a.rounds.empty() && !b.rounds.empty(); }));
  a.member->workers_succeeded();
  b.member->workers_succeeded();
  REQUIRE(world.run_until([&] { return a.end && b.end; }));
  CHECK(a.end->exit_code == 0);
}

TEST_CASE("a closed connection is known to the others, and the rest go on when the lease is over") {
  LoopbackWorld world(elastic(2, 3), patient());
  LoopbackNode& a = world.join("a");
  LoopbackNode& b = world.join("b");
  LoopbackNode& c = world.join("c");
  REQUIRE(world.run_until([&] { return !a.rounds.empty() && !b.rounds.empty() && !c.rounds.empty(); }));
  c.member->close();
  REQUIRE(world.run_until([&] { return !a.stops.empty() && !b.stops.empty(); }));
  CHECK(a.rounds.size() == 1);
  REQUIRE(world.run_until([&] { return a.rounds.size() == 2 && b.rounds.size() == 2; }));
  CHECK(a.stops.front() == "node 2 (c, 127.0.0.1) was lost: its connection was closed");
  CHECK(a.rounds[1].seat.nodes == 2);
}

TEST_CASE("a silent node is lost, the rest go on, and no false alarm is given meanwhile") {
  LoopbackWorld world(elastic(1, 2), quick());
  LoopbackNode& a = world.join("a");
  REQUIRE(world.run_until([&] { return !a.rounds.empty(); }));
  CHECK_FALSE(world.run_until([&] { return !a.stops.empty() || !a.kills.empty(); }, 1500ms));
}

TEST_CASE("with one secret on both sides nodes join, with another they are refused") {
  LoopbackWorld world(fixed(1), {}, "swordfish");
  MemberOptions wrong = world.fitting("b");
  wrong.secret = "herring";
  CHECK_THAT(refusal(world, wrong), Contains("has another job secret than this node"));
  MemberOptions none = world.fitting("c");
  none.secret.clear();
  CHECK_THAT(refusal(world, none),
             Contains("node c (127.0.0.1) has no job secret, but the coordinator has one"));
  LoopbackNode& a = world.join("a");
  CHECK(world.run_until([&] { return !a.rounds.empty(); }));
}

TEST_CASE("a node of another job is refused on its side within three seconds, with both names") {
  LoopbackWorld world(fixed(2));
  MemberOptions other = world.fitting("b");
  other.spec.run_id = "mnist";
  CHECK(refusal(world, other) ==
        "rendezvous: the coordinator at 127.0.0.1:" + to_string(world.coordinator->port()) +
            " refused this node: node b (127.0.0.1) belongs to job \"mnist\", but job \"cifar\" is served "
            "here; give all "
            "nodes of a job one --rdzv-id, and every job its own endpoint");
}

TEST_CASE("two nodes with one rank: the second is refused") {
  LoopbackWorld world(fixed(2));
  MemberOptions first = world.fitting("a");
  first.node.pinned = NodeRank(0);
  LoopbackNode& a = world.join(first);
  REQUIRE(world.run_until([&] { return world.coordinator->job().describe({}).find("1 of 2") == 0; }));
  MemberOptions second = world.fitting("b");
  second.node.pinned = NodeRank(0);
  LoopbackNode& b = world.join(second);
  REQUIRE(world.run_until([&] { return b.failed.has_value(); }));
  CHECK_THAT(b.failed->message(),
             Contains("node rank 0 of node b (127.0.0.1) is taken by node a (127.0.0.1)"));
  CHECK_FALSE(world.run_until([&] { return !a.rounds.empty(); }, 300ms));
}

TEST_CASE("an endpoint nobody owns is said at once and given up at the time-out, with the addresses tried") {
  LoopbackWorld world(fixed(1));
  MemberOptions lost = world.fitting("a");
  world.coordinator->close();
  LoopbackNode& node = world.join(lost);
  REQUIRE(world.run_until([&] { return node.failed.has_value(); }, 3s));
  CHECK_THAT(node.waiting.at(0),
             Contains("no coordinator at 127.0.0.1:") && Contains("[127.0.0.1] connection refused"));
  CHECK_THAT(node.failed->message(), Contains("within 2.0 s") && Contains("--rdzv-id cifar"));
  CHECK(node.failed->code() == ErrorCode::kUnavailable);
}

TEST_CASE("a name that cannot be resolved is named") {
  LoopbackWorld world(fixed(1));
  MemberOptions lost = world.fitting("a");
  lost.host = "no-such-host.invalid";
  CHECK_THAT(refusal(world, lost), Contains("the name no-such-host.invalid cannot be resolved"));
}

TEST_CASE("a port where nobody answers a hello is tried until the time-out, and who may be there is said") {
  LoopbackWorld world(fixed(1));
  boost::asio::ip::tcp::acceptor mute(world.io, {boost::asio::ip::address_v4::loopback(), 0});
  MemberOptions lost = world.fitting("a");
  lost.port = Port(mute.local_endpoint().port());
  lost.join_timeout = 3s;
  LoopbackNode& node = world.join(lost);
  REQUIRE(world.run_until([&] { return node.failed.has_value(); }, 20s));
  const std::string hint =
      "it does not answer an agent's hello: its ddprun stands still, or another program (torchrun?) uses "
      "this port";
  CHECK_THAT(node.waiting.at(0), Contains(hint));
  CHECK_THAT(node.failed->message(),
             Contains("no coordinator at 127.0.0.1:") && Contains("2 attempts") && Contains(hint));
}

TEST_CASE("a connection that does not answer its welcome is no node: it takes no seat and no node rank") {
  const bool has_gone = GENERATE(false, true);
  const std::optional<NodeRank> pinned = GENERATE(std::optional<NodeRank>{}, std::optional(NodeRank(1)));
  LoopbackWorld world(fixed(2));
  auto stopped = half_joined(world, pinned);
  if (has_gone) stopped.close();
  LoopbackNode& a = world.join("a");
  REQUIRE(world.run_until([&] { return world.coordinator->job().describe({}).find("1 of 2") == 0; }));
  CHECK_FALSE(world.run_until([&] { return !a.rounds.empty(); }, 300ms));
  MemberOptions again = world.fitting("b");
  again.node.pinned = pinned;
  LoopbackNode& b = world.join(again);
  REQUIRE(world.run_until([&] { return !a.rounds.empty() && !b.rounds.empty(); }));
  CHECK(b.rounds[0].seat.node_rank == NodeRank(1));
}

TEST_CASE("a node that comes when the job has ended may come again: that is no fault of its command line") {
  LoopbackWorld world(elastic(1, 2), quick());
  LoopbackNode& a = world.join("a");
  REQUIRE(world.run_until([&] { return !a.rounds.empty(); }));
  a.member->workers_succeeded();
  REQUIRE(world.run_until([&] { return a.end.has_value(); }));
  LoopbackNode& late = world.join("b");
  REQUIRE(world.run_until([&] { return late.failed.has_value(); }, 20s));
  CHECK(late.failed->code() == ErrorCode::kUnavailable);
  CHECK_THAT(late.failed->message(), Contains("no coordinator at 127.0.0.1:") && Contains("within 2.0 s") &&
                                         Contains("job cifar has ended"));
  CHECK(world.coordinator->is_done());
}

TEST_CASE("a node told to stop leaves, and the others are told why") {
  LoopbackWorld world(fixed(2));
  LoopbackNode& a = world.join("a");
  LoopbackNode& b = world.join("b");
  REQUIRE(world.run_until([&] { return !a.rounds.empty() && !b.rounds.empty(); }));
  b.member->leave(SIGTERM);
  b.member->workers_stopped();
  REQUIRE(world.run_until([&] { return a.end && b.end; }));
  CHECK(a.end->exit_code == 75);
  CHECK(a.end->why == "node 1 (b, 127.0.0.1) was told to stop by SIGTERM");
}

TEST_CASE("a node that loses the coordinator stops its workers, says so and gives up") {
  LoopbackWorld world(fixed(1), quick());
  LoopbackNode& a = world.join("a");
  REQUIRE(world.run_until([&] { return !a.rounds.empty(); }));
  world.coordinator->close();
  REQUIRE(world.run_until([&] { return a.failed.has_value(); }, 3s));
  CHECK_THAT(a.stops.at(0), Contains("lost the coordinator at 127.0.0.1:"));
}

TEST_CASE("a coordinator that was one and does not answer now is sought until the time-out") {
  LoopbackWorld world(fixed(1), quick());
  LoopbackNode& a = world.join("a");
  REQUIRE(world.run_until([&] { return !a.rounds.empty(); }));
  const boost::asio::ip::tcp::endpoint place(boost::asio::ip::address_v4::loopback(),
                                             world.coordinator->port().value());
  world.coordinator->close();
  boost::asio::ip::tcp::acceptor stands_still(world.io, place);
  REQUIRE(world.run_until([&] { return a.failed.has_value(); }, 6s));
  CHECK_THAT(a.failed->message(),
             Contains("no coordinator at 127.0.0.1:") && Contains("it does not answer an agent's hello"));
}
