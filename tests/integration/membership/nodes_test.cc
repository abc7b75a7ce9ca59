#include "tests/support/catch.h"
#include "tests/support/launched.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

// Several ddprun processes on one machine, as several nodes of a job.

using namespace ddprun::testing;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

/// A port that was free a moment ago: all nodes must be told the same one beforehand.
std::string free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  ::close(fd);
  return std::to_string(ntohs(address.sin_port));
}

bool is_served(const std::string& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
  const bool connected = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return connected;
}

/// Then the node that was started first owns the coordinator.
void wait_until_served(const std::string& port) {
  REQUIRE(eventually(10s, [&] { return is_served(port); }));
}

/// What the nodes of one job have in common.
struct Cluster {
  std::string nnodes;
  std::string script;
  std::string port = free_port();
  std::vector<std::string> flags{};
  std::string run_id = "job";

  [[nodiscard]] std::unique_ptr<Launched> start_dynamic() const {
    return start({"--rdzv-endpoint", "127.0.0.1:" + port, "--rdzv-id", run_id});
  }
  [[nodiscard]] std::unique_ptr<Launched> start_static(int node_rank) const {
    return start(
        {"--node-rank", std::to_string(node_rank), "--master-addr", "127.0.0.1", "--master-port", port});
  }
  [[nodiscard]] std::unique_ptr<Launched> start(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--nnodes", nnodes, "--nproc-per-node", "2"});
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.insert(arguments.end(), {"--no-python", "/bin/sh", "-c", script});
    return std::make_unique<Launched>(ddprun_command(arguments));
  }
};

const std::string kSay =
    "echo rank $RANK of $WORLD_SIZE node $GROUP_RANK of $GROUP_WORLD_SIZE at $MASTER_ADDR";

}  // namespace

TEST_CASE("static nodes make one world, ranks in order of --node-rank") {
  const Cluster cluster{.nnodes = "2", .script = kSay};
  const auto second = cluster.start_static(1);
  const auto first = cluster.start_static(0);
  CHECK(first->wait() == 0);
  CHECK(second->wait() == 0);
  CHECK_THAT(first->out(), Contains("rank 0 of 4 node 0 of 2 at 127.0.0.1") && Contains("rank 1 of 4"));
  CHECK_THAT(second->out(), Contains("rank 2 of 4 node 1 of 2 at 127.0.0.1") && Contains("rank 3 of 4"));
}

TEST_CASE("dynamic nodes make one world, whoever owns the endpoint") {
  const Cluster cluster{.nnodes = "3", .script = kSay};
  const auto a = cluster.start_dynamic();
  const auto b = cluster.start_dynamic();
  const auto c = cluster.start_dynamic();
  CHECK(a->wait() == 0);
  CHECK(b->wait() == 0);
  CHECK(c->wait() == 0);
  CHECK_THAT(a->out() + b->out() + c->out(), Contains("rank 5 of 6"));
}

TEST_CASE("every node prints the same root cause and exits with the guilty worker's code") {
  const Cluster cluster{.nnodes = "2",
                        .script = "if [ $RANK = 3 ]; then echo no such tensor >&2; exit 7; fi; sleep 100"};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  CHECK(first->wait() == 7);
  CHECK(second->wait() == 7);
  CHECK_THAT(first->err(),
             Contains("exited with code 7") && Contains("on node 1 (") && Contains("no such tensor"));
  CHECK_THAT(second->err(), Contains("exited with code 7") && Contains("no such tensor"));
}

TEST_CASE("a failed worker restarts the workers of all nodes, with one restart count") {
  const Cluster cluster{
      .nnodes = "2",
      .script =
          "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then [ $RANK = 0 ] && exit 3; sleep 100; fi; "
          "echo second life of $RANK",
      .flags = {"--max-restarts", "1"}};
  const auto a = cluster.start_dynamic();
  const auto b = cluster.start_dynamic();
  CHECK(a->wait() == 0);
  CHECK(b->wait() == 0);
  CHECK_THAT(a->out() + b->out(), Contains("second life of 0") && Contains("second life of 3"));
}

TEST_CASE("an elastic job goes on without a node whose agent was killed, and leaves no process of it") {
  Cluster cluster{.nnodes = "2:3", .script = {}};
  const std::string token = "token-" + cluster.port + "-" + std::to_string(::getpid());
  cluster.script =
      "echo up; : " + token + "; [ $TORCHELASTIC_RESTART_COUNT = 0 ] && sleep 100; echo $WORLD_SIZE workers";
  const auto a = cluster.start_dynamic();
  wait_until_served(cluster.port);
  const auto b = cluster.start_dynamic();
  const auto c = cluster.start_dynamic();
  for (const auto* node : {&a, &b, &c}) (*node)->read_line();
  c->signal(SIGKILL);
  CHECK(a->wait() == 0);
  CHECK(b->wait() == 0);
  CHECK_THAT(a->out(), Contains("4 workers"));
  CHECK_THAT(b->out(), Contains("4 workers"));
  CHECK_THAT(a->err(), Contains("was lost: its connection was closed"));
  c->wait();
  CHECK(eventually(5s, [&] { return processes_with(token).empty(); }));
}

TEST_CASE("SIGTERM to one node of a fixed world ends the job on all, with its code") {
  const Cluster cluster{.nnodes = "2", .script = "echo up; exec sleep 100"};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  first->read_line();
  second->read_line();
  second->signal(SIGTERM);
  CHECK(second->wait() == 128 + SIGTERM);
  CHECK(first->wait() == 128 + SIGTERM);
  CHECK_THAT(first->err(), Contains("was told to stop by SIGTERM"));
}

TEST_CASE("Ctrl-C on the node of the coordinator ends the job on all") {
  const Cluster cluster{.nnodes = "2", .script = "echo up; exec sleep 100"};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  first->read_line();
  second->read_line();
  first->signal(SIGINT);
  CHECK(first->wait() == 128 + SIGINT);
  CHECK(second->wait() == 128 + SIGINT);
}

TEST_CASE("the port of the coordinator is taken: said at once, with the port") {
  const Cluster cluster{.nnodes = "2", .script = "exit 0"};
  const auto first = cluster.start_static(0);
  const Cluster other{.nnodes = "3", .script = "exit 0", .port = cluster.port};
  wait_until_served(cluster.port);
  const auto thief = other.start_static(0);
  CHECK(thief->wait(5s) == 69);
  CHECK_THAT(thief->err(), Contains(cluster.port) && Contains("in use"));
  first->signal(SIGKILL);
  first->wait();
}

TEST_CASE("a node of another job at the same endpoint is refused, with both job ids") {
  Cluster cluster{.nnodes = "2", .script = "echo up"};
  const auto first = cluster.start_dynamic();
  wait_until_served(cluster.port);
  cluster.run_id = "other";
  const auto stray = cluster.start_dynamic();
  CHECK(stray->wait(5s) == 64);
  CHECK_THAT(stray->err(), Contains("belongs to job \"other\", but job \"job\" is served here"));
  cluster.run_id = "job";
  const auto second = cluster.start_dynamic();
  CHECK(second->wait() == 0);
  CHECK(first->wait() == 0);
}
