#include "tests/integration/nodes/cluster.h"
#include "tests/support/catch.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

// Nodes that are told to go: every worker of the job hears of it, and the codes say whether to run again.

using namespace ddprun::testing;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

constexpr int kRequeue = 75;

/// Says when it runs, and that it got SIGTERM.
const std::string kPolite = "trap 'echo $RANK saved; kill $!; exit 0' TERM; echo up; sleep 100 & wait";

std::unique_ptr<Launched> drain(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "drain");
  return std::make_unique<Launched>(ddprun_command(arguments));
}

void wait_until_up(Launched& node, int workers) {
  for (int i = 0; i < workers; ++i) CHECK(node.read_line() == "up");
}

}  // namespace

TEST_CASE("SIGTERM to one node of a fixed world reaches every worker, and ends the job on all with 75") {
  const Cluster cluster{.nnodes = "3", .script = kPolite, .nproc = "1"};
  const auto a = cluster.start_static(0);
  const auto b = cluster.start_static(1);
  const auto c = cluster.start_static(2);
  for (const auto* node : {&a, &b, &c}) wait_until_up(**node, 1);
  b->signal(SIGTERM);
  CHECK(a->wait() == kRequeue);
  CHECK(b->wait() == kRequeue);
  CHECK(c->wait() == kRequeue);
  CHECK(a->out() == "0 saved\n");
  CHECK(b->out() == "1 saved\n");
  CHECK(c->out() == "2 saved\n");
  CHECK_THAT(a->err(), Contains("node 1 (") && Contains("was told to stop by SIGTERM"));
}

TEST_CASE("SIGTERM to all nodes at once ends the job with 75 on all") {
  const Cluster cluster{.nnodes = "3", .script = kPolite, .nproc = "1"};
  const auto a = cluster.start_static(0);
  const auto b = cluster.start_static(1);
  const auto c = cluster.start_static(2);
  for (const auto* node : {&a, &b, &c}) wait_until_up(**node, 1);
  for (const auto* node : {&a, &b, &c}) (*node)->signal(SIGTERM);
  CHECK(a->wait() == kRequeue);
  CHECK(b->wait() == kRequeue);
  CHECK(c->wait() == kRequeue);
}

TEST_CASE("SIGTERM to the coordinator's node while nodes are waited for ends all that are there with 75") {
  const Cluster cluster{.nnodes = "3", .script = "exit 0"};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  first->wait_for_err("2 of 3 nodes are here");
  first->signal(SIGTERM);
  CHECK(first->wait() == kRequeue);
  CHECK(second->wait() == kRequeue);
}

TEST_CASE("SIGTERM to one node of an elastic job: it leaves with 75 and the rest go on") {
  const Cluster cluster{.nnodes = "1:2",
                        .script =
                            "if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then echo goes on with $WORLD_SIZE; "
                            "exit 0; fi; " +
                            kPolite,
                        .flags = {"--rdzv-conf", "last_call_timeout=60"}};
  const auto stays = cluster.start_dynamic();
  wait_until_served(cluster.port);
  const auto leaves = cluster.start_dynamic();
  wait_until_up(*stays, 2);
  wait_until_up(*leaves, 2);
  leaves->signal(SIGTERM);
  CHECK(leaves->wait() == kRequeue);
  CHECK(stays->wait() == 0);
  CHECK_THAT(leaves->out(), Contains("2 saved") && Contains("3 saved"));
  CHECK_THAT(stays->out(), Contains("0 saved") && Contains("1 saved") && Contains("goes on with 2"));
}

TEST_CASE("ddprun drain with a pid drains the whole job from any of its nodes") {
  const Cluster cluster{.nnodes = "2", .script = kPolite};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  wait_until_up(*first, 2);
  wait_until_up(*second, 2);
  const auto asked = drain({std::to_string(second->pid())});
  CHECK(asked->wait() == 0);
  CHECK_THAT(asked->err(), Contains("its job ends with 75"));
  CHECK(first->wait() == kRequeue);
  CHECK(second->wait() == kRequeue);
  CHECK_THAT(first->out() + second->out(), Contains("0 saved") && Contains("3 saved"));
  CHECK_THAT(first->err(), Contains(" was drained; start it again to go on\n") && !Contains(" failed"));
}

TEST_CASE("a job that is drained or left by a node between two starts reports what they failed of") {
  const bool is_drained = GENERATE(true, false);
  const Cluster cluster{.nnodes = "2",
                        .script = "[ $RANK = 0 ] || exec sleep 100; echo 'ValueError: nan' >&2; exit 7",
                        .flags = {"--max-restarts", "9"},
                        .nproc = "1"};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  first->wait_for_err("starting all workers again in 2.0 s");
  if (is_drained) {
    CHECK(drain({std::to_string(first->pid())})->wait() == 0);
  } else {
    second->signal(SIGTERM);
  }
  CHECK(first->wait() == kRequeue);
  CHECK(second->wait() == kRequeue);
  CHECK_THAT(first->err(), Contains("\n  before    rank 0 (") && Contains("| ValueError: nan"));
  const std::string end =
      is_drained ? " was drained; start it again to go on\n" : "was told to stop by SIGTERM\n";
  CHECK_THAT(first->err(), Contains(end));
}

TEST_CASE("ddprun drain ends a job of one node with 75, too, after its workers have saved") {
  const auto job = std::make_unique<Launched>(
      ddprun_command({"--rdzv-id", "lone-job", "--no-python", "/bin/sh", "-c", kPolite}));
  wait_until_up(*job, 1);
  CHECK(drain({"lone-job"})->wait() == 0);
  CHECK(job->wait() == kRequeue);
  CHECK(job->out() == "0 saved\n");
}

TEST_CASE("SIGTERM to a job of one node keeps torchrun's meaning") {
  const auto job = std::make_unique<Launched>(ddprun_command({"--no-python", "/bin/sh", "-c", kPolite}));
  wait_until_up(*job, 1);
  job->signal(SIGTERM);
  CHECK(job->wait() == 128 + SIGTERM);
}

TEST_CASE("ddprun drain by endpoint drains the job of that id, and no other") {
  const Cluster cluster{.nnodes = "2", .script = kPolite};
  const auto first = cluster.start_dynamic();
  const auto second = cluster.start_dynamic();
  wait_until_up(*first, 2);
  wait_until_up(*second, 2);
  const auto stray = drain({"--rdzv-endpoint", "127.0.0.1:" + cluster.port, "--rdzv-id", "other"});
  CHECK(stray->wait() == 64);
  CHECK_THAT(stray->err(), Contains("job \"job\" is served here"));
  CHECK(drain({"--rdzv-endpoint", "127.0.0.1:" + cluster.port, "--rdzv-id", "job"})->wait() == 0);
  CHECK(first->wait() == kRequeue);
  CHECK(second->wait() == kRequeue);
}

TEST_CASE("ddprun drain by endpoint and node rank: that node leaves, the rest go on") {
  const Cluster cluster{.nnodes = "1:2",
                        .script = "if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then exit 0; fi; " + kPolite,
                        .flags = {"--rdzv-conf", "last_call_timeout=60"}};
  const auto stays = cluster.start_dynamic();
  wait_until_served(cluster.port);
  const auto leaves = cluster.start_dynamic();
  wait_until_up(*stays, 2);
  wait_until_up(*leaves, 2);
  const std::vector<std::string> where{"--rdzv-endpoint", "127.0.0.1:" + cluster.port, "--rdzv-id", "job"};
  const auto nobody = drain({where[0], where[1], where[2], where[3], "--node-rank", "5"});
  CHECK(nobody->wait() == 64);
  CHECK_THAT(nobody->err(), Contains("no node of rank 5 runs in job job; running node ranks: 0, 1"));
  CHECK(drain({where[0], where[1], where[2], where[3], "--node-rank", "1"})->wait() == 0);
  CHECK(leaves->wait() == kRequeue);
  CHECK(stays->wait() == 0);
}

TEST_CASE("ddprun drain of the node that runs the coordinator: the job ends with it, and says so") {
  const Cluster cluster{
      .nnodes = "1:2", .script = kPolite, .flags = {"--rdzv-conf", "last_call_timeout=60"}, .nproc = "1"};
  const auto hosts = cluster.start_dynamic();
  wait_until_served(cluster.port);
  const auto other = cluster.start_dynamic();
  for (const auto* node : {&hosts, &other}) wait_until_up(**node, 1);
  const std::string where = "127.0.0.1:" + cluster.port;
  CHECK(drain({"--rdzv-endpoint", where, "--rdzv-id", "job", "--node-rank", "0"})->wait() == 0);
  CHECK(hosts->wait() == kRequeue);
  CHECK(other->wait() == kRequeue);
  CHECK_THAT(other->err(),
             Contains("; the coordinator runs there, and the job ends with it") && !Contains(" stay"));
}

TEST_CASE("a signal to ddprun coordinator: all nodes hear who was told to stop, and by whom") {
  Launched coordinator(
      ddprun_command({"coordinator", "--bind", "127.0.0.1:0", "--nnodes", "2", "--rdzv-id", "job"}));
  const std::string printed = coordinator.read_line();
  const Cluster cluster{.nnodes = "2",
                        .script = kPolite,
                        .port = printed.substr(printed.rfind(':') + 1),
                        .flags = {"--rdzv-conf", "is_host=false"},
                        .nproc = "1"};
  const auto a = cluster.start_dynamic();
  const auto b = cluster.start_dynamic();
  for (const auto* node : {&a, &b}) wait_until_up(**node, 1);
  const auto [signal, name] =
      GENERATE(std::pair(SIGTERM, "SIGTERM"), std::pair(SIGHUP, "SIGHUP"), std::pair(SIGQUIT, "SIGQUIT"));
  coordinator.signal(signal);
  const std::string sentence =
      std::string("the coordinator was told to stop by ") + name + " from pid " + std::to_string(::getpid());
  for (const auto* node : {&a, &b}) {
    CHECK((*node)->wait() == 128 + signal);
    CHECK_THAT((*node)->err(), Contains(sentence));
  }
  CHECK(coordinator.wait() == 128 + signal);
  CHECK_THAT(coordinator.err(), Contains(sentence));
}

TEST_CASE("ddprun drain says so when there is no such job, or more than one") {
  const auto missing = drain({"no-such-job"});
  CHECK(missing->wait() == 69);
  CHECK_THAT(missing->err(), Contains("no job \"no-such-job\" on this host") ||
                                 Contains("no job of yours runs on this host"));
  const std::vector<std::string> command =
      ddprun_command({"--rdzv-id", "twins", "--no-python", "/bin/sh", "-c", kPolite});
  Launched one(command);
  Launched two(command);
  wait_until_up(one, 1);
  wait_until_up(two, 1);
  const auto which = drain({"twins"});
  CHECK(which->wait() == 64);
  CHECK_THAT(which->err(), Contains("2 of your jobs on this host go by \"twins\"; name one by its tag:") &&
                               Contains(std::to_string(one.pid())) && Contains(std::to_string(two.pid())));
}

TEST_CASE("ddprun drain by endpoint says so when nobody answers there") {
  const auto nobody = drain({"--rdzv-endpoint", "127.0.0.1:" + free_port(), "--rdzv-id", "job"});
  CHECK(nobody->wait(5s) == 69);
  CHECK_THAT(nobody->err(), Contains("cannot be reached") && Contains("connection refused"));
}
