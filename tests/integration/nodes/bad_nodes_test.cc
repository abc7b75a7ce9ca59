#include "rendezvous/base/unique_fd.h"
#include "rendezvous/membership/messages.h"
#include "tests/integration/nodes/cluster.h"
#include "tests/integration/nodes/wire.h"
#include "tests/support/catch.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <chrono>
#include <csignal>
#include <string>

// Nodes that do not fit together: soon each that can be reached says so, names both sides,
// and says what to do.

using namespace ddprun;
using namespace ddprun::membership;
using namespace ddprun::testing;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

/// Waits for a sentence of a node that goes on trying, and ends it: soon, not after the ten minutes that it tries.
void check_says_soon(Launched& node, const std::string& sentence) {
  const auto start = std::chrono::steady_clock::now();
  node.wait_for_err(sentence);
  CHECK(std::chrono::steady_clock::now() - start < 20s);
  node.signal(SIGKILL);
  node.wait();
}

}  // namespace

TEST_CASE("an endpoint that nobody owns: the address tried, why not, and for how long it goes on") {
  Cluster cluster{.nnodes = "2", .script = "exit 0"};
  const auto node = cluster.start_static(1);
  node->wait_for_err("no coordinator at 127.0.0.1:" + cluster.port + " yet: [127.0.0.1] connection refused");
  check_says_soon(*node, "is ddprun running there with the same endpoint and --rdzv-id none? Trying for ");
}

TEST_CASE("a node that cannot serve at its own address says why, when nobody else does") {
  // Bound and not listening: as an outgoing connection holds a port.
  const UniqueFd holder(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(holder.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
  REQUIRE(::getsockname(holder.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const Cluster cluster{.nnodes = "1:2",
                        .script = "exit 0",
                        .port = std::to_string(ntohs(address.sin_port)),
                        .flags = {"--rdzv-conf", "join_timeout=2"}};
  const auto node = cluster.start_dynamic();
  CHECK(node->wait() == 69);
  CHECK_THAT(node->err(),
             Contains("that address is this node's own, but here: store: cannot listen on 127.0.0.1:" +
                      cluster.port + ": Address already in use"));
}

TEST_CASE("a name that does not resolve is named") {
  Launched node(ddprun_command({"--nnodes", "2", "--rdzv-endpoint", "no-such-host.invalid:29400", "--rdzv-id",
                                "job", "--no-python", "/bin/true"}));
  check_says_soon(node, "the name no-such-host.invalid cannot be resolved");
}

TEST_CASE("port 0: the node that listens says which one the kernel chose, and another joins there") {
  const std::vector<std::string> job{"--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-id", "job"};
  const auto node_at = [&](const std::string& endpoint) {
    std::vector<std::string> command = job;
    command.insert(command.end(), {"--rdzv-endpoint", endpoint, "--no-python", "/bin/true"});
    return std::make_unique<Launched>(ddprun_command(command));
  };
  const auto first = node_at("127.0.0.1:0");
  const std::string sentence = ", which the kernel chose: the others join with --rdzv-endpoint ";
  first->wait_for_err(sentence);
  first->wait_for_err("1 of 2 nodes are here");
  const std::size_t at = first->err().find(sentence) + sentence.size();
  const auto second = node_at(first->err().substr(at, first->err().find('\n', at) - at));
  CHECK(second->wait() == 0);
  CHECK(first->wait() == 0);
}

TEST_CASE("port 0 of a coordinator that is not here: refused at once") {
  Launched node(ddprun_command({"--nnodes", "2", "--node-rank", "1", "--master-addr", "127.0.0.1",
                                "--master-port", "0", "--no-python", "/bin/true"}));
  CHECK(node.wait() == 64);
  CHECK_THAT(node.err(), Contains("127.0.0.1 port 0 lets the kernel choose where the coordinator runs, which "
                                  "is not here; name the port that ddprun said there"));
}

TEST_CASE("the port of the coordinator is taken: said at once, with the port") {
  const Cluster cluster{.nnodes = "2", .script = "exit 0"};
  const auto first = cluster.start_static(0);
  const Cluster other{.nnodes = "3", .script = "exit 0", .port = cluster.port};
  wait_until_served(cluster.port);
  const auto thief = other.start_static(0);
  CHECK(thief->wait() == 69);
  CHECK_THAT(thief->err(), Contains(cluster.port) && Contains("in use"));
  first->signal(SIGKILL);
  first->wait();
}

TEST_CASE("a port where something else listens is no coordinator") {
  const ListeningPort mute;
  const Cluster cluster{
      .nnodes = "2", .script = "exit 0", .port = mute.port(), .flags = {"--rdzv-conf", "join_timeout=3"}};
  const auto node = cluster.start_dynamic();
  CHECK(node->wait() == 69);
  const std::string nobody = "no coordinator at 127.0.0.1:" + cluster.port + " within ";
  CHECK(node->err().find(nobody) == node->err().rfind(nobody));
  CHECK_THAT(node->err(), Contains("no coordinator at 127.0.0.1:" + cluster.port) &&
                              Contains("it does not answer an agent's hello: its ddprun stands still, or "
                                       "another program (torchrun?) uses this port"));
}

TEST_CASE("a node of another job at the same endpoint is refused, with both job ids, and the job goes on") {
  Cluster cluster{.nnodes = "2", .script = "echo up"};
  const auto first = cluster.start_dynamic();
  wait_until_served(cluster.port);
  cluster.run_id = "other";
  const auto stray = cluster.start_dynamic();
  CHECK(stray->wait() == 64);
  const std::string sentence =
      "belongs to job \"other\", but job \"job\" is served here; give all nodes of a job one "
      "--rdzv-id, and every job its own endpoint";
  CHECK_THAT(stray->err(), Contains(sentence));
  first->wait_for_err(sentence);
  cluster.run_id = "job";
  const auto second = cluster.start_dynamic();
  CHECK(second->wait() == 0);
  CHECK(first->wait() == 0);
}

TEST_CASE("two nodes of one rank: the second is refused, both are told, and the job goes on") {
  const Cluster cluster{.nnodes = "3", .script = "echo up"};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  first->wait_for_err("2 of 3 nodes are here");
  const auto twin = cluster.start_static(1);
  CHECK(twin->wait() == 64);
  CHECK_THAT(twin->err(), Contains("node rank 1 of node ") && Contains(" is taken by node ") &&
                              Contains("; give every node its own --node-rank"));
  first->wait_for_err("; give every node its own --node-rank");
  const auto third = cluster.start_static(2);
  CHECK(first->wait() == 0);
  CHECK(second->wait() == 0);
  CHECK(third->wait() == 0);
}

TEST_CASE("a node rank beyond the number of nodes is refused, with what is allowed") {
  const Cluster cluster{.nnodes = "2", .script = "echo up"};
  const auto first = cluster.start_static(0);
  const auto beyond = cluster.start_static(7);
  CHECK(beyond->wait() == 64);
  CHECK_THAT(beyond->err(), Contains("7") && Contains("--node-rank"));
  first->signal(SIGKILL);
  first->wait();
}

TEST_CASE("a MIN above MAX is refused before anything starts") {
  const Cluster cluster{.nnodes = "3:2", .script = "exit 0"};
  const auto node = cluster.start_dynamic();
  CHECK(node->wait() == 64);
  CHECK_THAT(node->err(), Contains("--nnodes") && Contains("3:2"));
}

TEST_CASE("nodes with other --nnodes are refused, with both") {
  Cluster cluster{.nnodes = "2", .script = "exit 0"};
  const auto first = cluster.start_static(0);
  wait_until_served(cluster.port);
  cluster.nnodes = "3";
  const auto other = cluster.start_static(1);
  const std::string sentence =
      "was started with --nnodes 3, the coordinator with --nnodes 2; give all nodes the same";
  check_refused(*other, *first, sentence);
}

TEST_CASE("nodes may have different numbers of workers: ranks stay contiguous") {
  Cluster cluster{.nnodes = "2", .script = "echo $RANK of $WORLD_SIZE local $LOCAL_WORLD_SIZE"};
  cluster.nproc = "1";
  const auto first = cluster.start_static(0);
  cluster.nproc = "3";
  const auto second = cluster.start_static(1);
  CHECK(first->wait() == 0);
  CHECK(second->wait() == 0);
  CHECK(first->out() == "0 of 4 local 1\n");
  CHECK_THAT(second->out(), Contains("1 of 4 local 3") && Contains("3 of 4 local 3"));
}

TEST_CASE("an agent of another version is refused, with both versions, and the coordinator says so, too") {
  const Cluster cluster{.nnodes = "2", .script = "exit 0"};
  const auto first = cluster.start_dynamic();
  wait_until_served(cluster.port);
  const Wire newer(cluster.port);
  Hello hello{.version = kProtocolVersion + 1, .run_id = "job"};
  hello.node.host = "b";
  newer.send(std::string(kGreeting) + encode(hello));
  const auto refused = std::get<Refused>(newer.receive_message());
  const std::string versions = fmt::format(
      "speaks version {} of the agents' protocol, the coordinator version {}; use the same ddprun "
      "on all nodes",
      kProtocolVersion + 1, kProtocolVersion);
  CHECK_THAT(refused.reason, Contains(versions));
  check_says_soon(*first, versions);
}

TEST_CASE("a coordinator of another version: the agent prints its reason") {
  const ListeningPort newer;
  const Cluster cluster{.nnodes = "2", .script = "exit 0", .port = newer.port()};
  const auto node = cluster.start_static(1);
  const Wire connection = newer.accept();
  CHECK(connection.receive(kGreeting.size()) == kGreeting);
  CHECK(std::get<Hello>(connection.receive_message()).version == kProtocolVersion);
  connection.send(
      encode(Refused{"node b speaks version 1 of the agents' protocol, the coordinator version 9; use the "
                     "same ddprun on all nodes"}));
  CHECK(node->wait() == 64);
  CHECK_THAT(node->err(), Contains("the coordinator at 127.0.0.1:" + cluster.port +
                                   " refused this node: node b speaks version 1"));
}
