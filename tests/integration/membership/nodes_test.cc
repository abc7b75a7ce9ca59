#include "tests/integration/membership/cluster.h"
#include "tests/support/catch.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>

// Several ddprun processes on one machine, as several nodes of a job.

using namespace ddprun::testing;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

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
  const Cluster cluster{
      .nnodes = "2",
      .script =
          "if [ $RANK = 3 ]; then echo about to look >&2; echo no such tensor >&2; exit 7; fi; sleep 100"};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  CHECK(first->wait() == 7);
  CHECK(second->wait() == 7);
  CHECK_THAT(first->err(),
             Contains("exited with code 7") && Contains("on node 1 (") &&
                 Contains("the last 2 lines of its stderr:\n    | about to look\n    | no such tensor"));
  CHECK_THAT(second->err(),
             Contains("exited with code 7") &&
                 Contains("the last 2 lines of its stderr:\n    | about to look\n    | no such tensor"));
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

TEST_CASE("a node whose workers have all succeeded starts again with the others when one of theirs fails") {
  const TempDirectory folder;
  Cluster cluster{.nnodes = "2", .script = {}, .flags = {"--max-restarts", "1"}, .nproc = "1"};
  // Rank 1 fails when the process of rank 0 is gone.
  cluster.script = "cd " + folder.path() +
                   "; [ $TORCHELASTIC_RESTART_COUNT = 0 ] || { echo again $RANK; exit 0; }; "
                   "if [ $RANK = 0 ]; then echo $$ >new && mv new pid; exit 0; fi; "
                   "until [ -e pid ]; do sleep 0.02; done; "
                   "while kill -0 $(cat pid) 2>&-; do sleep 0.02; done; exit 3";
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  CHECK(first->wait() == 0);
  CHECK(second->wait() == 0);
  CHECK_THAT(first->out(), Contains("again 0"));
  CHECK_THAT(second->out(), Contains("again 1"));
}

TEST_CASE("an elastic job goes on without a node whose agent was killed, and leaves no process of it") {
  // The last call never ends by itself: the round closes when the third is there, however slow the machine.
  Cluster cluster{.nnodes = "2:3",
                  .script = {},
                  .flags = {"--rdzv-conf", "last_call_timeout=60,keep_alive_interval=0.2"}};
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
  CHECK_THAT(a->err(), Contains("was lost: its connection was closed") ||
                           Contains("was lost: its connection was broken"));
  c->wait();
  CHECK(eventually(5s, [&] { return processes_with(token).empty(); }));
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

TEST_CASE("what a worker wrote into its error file is in the report of every node, with its host") {
  const Cluster cluster{.nnodes = "2", .script = R"(if [ $RANK = 3 ]; then
        echo '{"message": {"message": "ValueError: loss is nan", "extraInfo": {"py_callstack": "in step 120"}}}' \
          > $TORCHELASTIC_ERROR_FILE; exit 1; fi; sleep 100)"};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  CHECK(first->wait() == 1);
  CHECK(second->wait() == 1);
  for (const auto* node : {&first, &second}) {
    CHECK_THAT((*node)->err(), Contains("rank 3") && Contains("ValueError: loss is nan") &&
                                   Contains("in step 120") && Contains("/error.json) says:"));
  }
}
