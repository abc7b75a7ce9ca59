#include "rendezvous/membership/messages.h"
#include "tests/integration/nodes/cluster.h"
#include "tests/integration/nodes/wire.h"
#include "tests/support/catch.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// Several ddprun processes on one machine, as several nodes of a job.

using namespace ddprun;
using namespace ddprun::membership;
using namespace ddprun::testing;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::Matches;

namespace {

const std::string kSay =
    "echo rank $RANK of $WORLD_SIZE node $GROUP_RANK of $GROUP_WORLD_SIZE at $MASTER_ADDR";

std::string only_file(const std::string& folder, const std::string& name) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().filename() == name) return entry.path().string();
  }
  FAIL("no " << name << " in " << folder);
  return {};
}

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

TEST_CASE("every node says why the guilty worker failed, when all start again and at the end") {
  const TempDirectory folder;
  Cluster cluster{.nnodes = "2",
                  .script = R"([ $RANK = 3 ] || exec sleep 100
        printf 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    step()\n' >&2
        printf 'RuntimeError: boom\n' >&2; exit 1)",
                  .flags = {"--max-restarts", "1"}};
  std::vector<std::unique_ptr<Launched>> nodes;
  for (const int rank : {0, 1}) {
    cluster.flags.insert(cluster.flags.end(), {"--log-dir", folder.path() + "/" + std::to_string(rank)});
    nodes.push_back(cluster.start_static(rank));
    cluster.flags.resize(2);
  }
  for (const auto& node : nodes) {
    CHECK(node->wait() == 1);
    CHECK_THAT(node->err(),
               Matches("[^]*uncaught Python exception RuntimeError: boom\\)?; starting all workers again: "
                       "restart 1 of 1\n[^]*") &&
                   Contains("\n  uncaught Python exception RuntimeError: boom\n\n  its traceback") &&
                   Contains("    | RuntimeError: boom\n"));
  }
  for (const int rank : {0, 1}) {
    const std::string report =
        read_file(only_file(folder.path() + "/" + std::to_string(rank), "report.json"));
    CHECK_THAT(report, Contains("\"diagnosis\": \"uncaught Python exception RuntimeError: boom\"") &&
                           Contains("\"traceback\": [\n"));
  }
}

TEST_CASE("a failed worker restarts the workers of all nodes, with one restart count and its cause") {
  const Cluster cluster{
      .nnodes = "2",
      .script =
          "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then [ $RANK = 0 ] && exit 3; sleep 100; fi; "
          "echo \"second life of $RANK: $DDPRUN_RESTART_CAUSE\"",
      .flags = {"--max-restarts", "1"}};
  const auto a = cluster.start_dynamic();
  const auto b = cluster.start_dynamic();
  CHECK(a->wait() == 0);
  CHECK(b->wait() == 0);
  CHECK_THAT(a->out() + b->out(), Contains("second life of 0") && Contains("second life of 3"));
  for (Launched* const node : {a.get(), b.get()})
    CHECK_THAT(node->out(), Contains("rank 0 (pid ") && Contains("exited with code 3 after "));
}

TEST_CASE("a crash loop of several nodes waits before its second restart, and every node says for how long") {
  const TempDirectory folder;
  Cluster cluster{.nnodes = "2",
                  .script = "[ $RANK = 1 ] && exit 3; exec sleep 100",
                  .flags = {"--max-restarts", "2"},
                  .nproc = "1"};
  std::vector<std::unique_ptr<Launched>> nodes;
  for (const int rank : {0, 1}) {
    cluster.flags.insert(cluster.flags.end(), {"--events", folder.path() + "/" + std::to_string(rank)});
    nodes.push_back(cluster.start_static(rank));
    cluster.flags.resize(2);
  }
  for (const int rank : {0, 1}) {
    CHECK(nodes[static_cast<std::size_t>(rank)]->wait() == 3);
    CHECK_THAT(nodes[static_cast<std::size_t>(rank)]->err(),
               Contains("starting all workers again: restart 1 of 2\n") &&
                   Contains("starting all workers again in 500 ms: restart 2 of 2\n"));
    CHECK_THAT(read_file(folder.path() + "/" + std::to_string(rank)),
               Contains("\"delay_ns\":0}") && Contains("\"delay_ns\":500000000}"));
  }
}

TEST_CASE("exit code 78 of a worker ends the job on all nodes at once") {
  const Cluster cluster{
      .nnodes = "2", .script = "[ $RANK = 2 ] && exit 78; exec sleep 100", .flags = {"--max-restarts", "5"}};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  for (const auto* node : {&first, &second}) {
    CHECK((*node)->wait() == 78);
    CHECK_THAT((*node)->err(), Contains("exited with code 78") && !Contains("starting all workers again"));
  }
}

TEST_CASE("a worker that cannot be started on one node ends the job on all at once, with the reason") {
  const TempDirectory folder;
  const std::string program = folder.path() + "/once";
  // It is there when ddprun looks for it, and gone when the second generation wants it.
  std::ofstream(program) << "#!/bin/sh\nrm \"$0\"\nexit 3\n";
  REQUIRE(::chmod(program.c_str(), 0700) == 0);
  const std::string port = free_port();
  const auto start = [&](const char* rank, std::vector<std::string> command) {
    command.insert(command.begin(), {"--nnodes", "2", "--node-rank", rank, "--master-addr", "127.0.0.1",
                                     "--master-port", port, "--max-restarts", "5", "--no-python"});
    return std::make_unique<Launched>(ddprun_command(std::move(command)));
  };
  const auto first = start("0", {"/bin/sleep", "100"});
  const auto second = start("1", {program});
  for (const auto* node : {&first, &second}) {
    CHECK((*node)->wait() == 127);
    CHECK_THAT((*node)->err(), Contains("restart 1 of 5") && !Contains("restart 2 of 5") &&
                                   Contains("could not be started") && Contains(program));
  }
}

TEST_CASE("a program that is not there on one of a fixed number of nodes ends all, with that node and why") {
  const TempDirectory folder;
  const std::string port = free_port();
  const std::string missing_rank = GENERATE("0", "1");
  const std::string missing = folder.path() + GENERATE("/train.py", "/trainer");
  const auto start = [&](const std::string& rank) {
    const bool lacks_it = rank == missing_rank;
    std::vector<std::string> command{"--nnodes",       "2",         "--node-rank",   rank,
                                     "--master-addr",  "127.0.0.1", "--master-port", port,
                                     "--max-restarts", "5"};
    if (lacks_it) {
      command.push_back(missing);
    } else {
      command.insert(command.end(), {"--no-python", "/bin/sleep", "100"});
    }
    return std::make_unique<Launched>(ddprun_command(std::move(command)));
  };
  const auto lacking = start(missing_rank);
  lacking->wait_for_err("\"" + missing + "\" does not exist");
  lacking->wait_for_err("it joins the job all the same, so that the other nodes hear of it");
  const auto other = start(missing_rank == "0" ? "1" : "0");
  for (const auto* node : {&lacking, &other}) {
    CHECK((*node)->wait() == 127);
    CHECK_THAT((*node)->err(),
               Contains(" failed: rank " + missing_rank) && Contains("could not be started") &&
                   Contains("\"" + missing + "\" does not exist") && !Contains("starting all workers again"));
  }
  CHECK_THAT(other->err(), Contains(" on node " + missing_rank + " ("));
}

TEST_CASE("a job file with an error on one of a fixed number of nodes ends all, with that node and why") {
  const TempDirectory folder;
  const std::string job = folder.path() + "/train.json";
  const bool is_json = GENERATE(false, true);
  std::ofstream(job) << (is_json ? R"({"train": {"epochz": 3}})" : "{");
  // Where a ddprun-worker is beside it, whatever was built.
  const std::string ddprun = folder.path() + "/ddprun";
  std::filesystem::copy_file(ddprun_command({}).front(), ddprun);
  std::filesystem::copy_file("/bin/true", folder.path() + "/ddprun-worker");
  const std::string port = free_port();
  const auto start = [&](const std::string& rank, std::vector<std::string> program) {
    std::vector<std::string> command{"--nnodes",      "2",         "--node-rank",   rank,
                                     "--master-addr", "127.0.0.1", "--master-port", port};
    command.insert(command.end(), program.begin(), program.end());
    command = ddprun_command(std::move(command));
    command.front() = ddprun;
    return std::make_unique<Launched>(std::move(command));
  };
  const auto wrong = start("0", {job});
  const auto right = start("1", {"--no-python", "/bin/sleep", "100"});
  CHECK(wrong->wait() == 78);
  CHECK(right->wait() == 78);
  CHECK_THAT(wrong->err(), Contains(is_json ? "/train/epochz: unknown key" : "^ here\n"));
  const std::string problem = is_json ? "train.json:1:12: /train/epochz: unknown key"
                                      : "train.json:1:2: expected a key in double quotes";
  CHECK_THAT(right->err(), Contains("could not be started on node 0 (") && Contains(problem) &&
                               !Contains("\\x0a") && !Contains("^ here"));
}

TEST_CASE("a program that is not there is refused at once where others can go on without this node") {
  const Cluster cluster{.nnodes = "1:2", .script = "exit 0"};
  Launched node(ddprun_command({"--nnodes", "1:2", "--rdzv-endpoint", "127.0.0.1:" + free_port(), "--rdzv-id",
                                "job", "/no/such/train.py"}));
  CHECK(node.wait() == 127);
  CHECK_THAT(node.err(), !Contains("joins the job"));
}

TEST_CASE("a coordinator that is killed and started again counts restarts on") {
  const std::string port = free_port();
  const auto start_coordinator = [&] {
    auto coordinator = std::make_unique<Launched>(
        ddprun_command({"coordinator", "--bind", "127.0.0.1:" + port, "--nnodes", "2", "--rdzv-id", "job",
                        "--max-restarts", "2", "--rdzv-conf", "keep_alive_interval=0.5"}));
    CHECK(coordinator->read_line() == port);
    return coordinator;
  };
  const auto killed = start_coordinator();
  const Gate gate;
  // Rank 0 fails when all are there, but for the second life, which ends with its coordinator.
  const Cluster cluster{.nnodes = "2",
                        .script =
                            "echo life $TORCHELASTIC_RESTART_COUNT; "
                            "[ $TORCHELASTIC_RESTART_COUNT$RANK != 10 ] && [ $RANK = 0 ] && "
                            "read x < " +
                            gate.path() + " && exit 3; exec sleep 100",
                        .port = port,
                        .flags = {"--rdzv-conf", "is_host=0"},
                        .nproc = "1"};
  const auto a = cluster.start_dynamic();
  const auto b = cluster.start_dynamic();
  const auto live = [&](const std::string& life) {
    CHECK(a->read_line() == life);
    CHECK(b->read_line() == life);
  };
  const auto fail_once = [&] { std::ofstream(gate.path()) << std::endl; };
  live("life 0");
  fail_once();
  live("life 1");
  killed->signal(SIGKILL);
  CHECK(killed->wait() == 128 + SIGKILL);
  const auto coordinator = start_coordinator();
  live("life 2");
  fail_once();
  live("life 3");
  fail_once();
  for (const auto* node : {&a, &b}) {
    CHECK((*node)->wait() == 3);
    CHECK_THAT((*node)->err(), Contains("restart 1 of 2\n") && Contains("restart 2 of 2\n") &&
                                   Contains("restarts  2 of 2 used"));
  }
  CHECK(coordinator->wait() == 3);
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

TEST_CASE("a rank that left with 0 beside others that go on is named when another node lost it") {
  const TempDirectory folder;
  const Cluster cluster{.nnodes = "2", .script = "cd " + folder.path() + R"(
        if [ $RANK = 0 ]; then echo $$ >new && mv new pid; exit 0; fi
        [ $RANK = 2 ] || exec sleep 100
        until [ -e pid ]; do sleep 0.02; done
        while kill -0 $(cat pid) 2>&-; do sleep 0.02; done
        echo 'RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:7' >&2
        exit 9)"};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  for (const auto* node : {&first, &second}) {
    CHECK((*node)->wait() == 9);
    CHECK_THAT((*node)->err(), Matches("[^]*rank 0 \\(pid [0-9]+\\) left with exit code 0 [^]* on node 0 "
                                       "[^]*, while others waited for it: rank 2 [^]*lost a peer[^]*"));
    CHECK_THAT((*node)->err(), Contains("the last line of what rank 2, which lost it, wrote to stderr"));
  }
}

TEST_CASE("of two causes on one of several nodes the older is to blame, and its code forbids a restart") {
  const Gate later;
  // An error file tells its time in whole seconds.
  const Cluster cluster{.nnodes = "2",
                        .script = "gate=" + later.path() + R"(
        [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0
        [ $RANK -lt 2 ] || exec sleep 100
        if [ $RANK = 1 ]; then
          read then <$gate; until [ $(date +%s) -gt $((then + 1)) ]; do sleep 0.02; done
          echo 'KeyError: other' >&2; exit 5
        fi
        trap 'exit 93' TERM; now=$(date +%s)
        printf '{"message":{"message":"ConfigError: bad","extraInfo":{"timestamp":"%s"}}}' $now >$TORCHELASTIC_ERROR_FILE
        echo $now >$gate; sleep 100 & wait)",
                        .flags = {"--max-restarts", "1"}};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  for (const auto* node : {&first, &second}) {
    CHECK((*node)->wait() == 93);
    CHECK_THAT((*node)->err(), Contains(" failed: rank 0 (") && Contains("ConfigError: bad"));
  }
}

TEST_CASE("what may be a cause on one node is before the symptom that another node tells first") {
  const TempDirectory folder;
  // Rank 3 ends when rank 0 has; the coordinator hears of rank 0 first.
  const Cluster cluster{.nnodes = "2", .script = "cd " + folder.path() + R"(
        if [ $RANK = 0 ]; then echo $$ >new && mv new pid
          echo 'RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:7' >&2; exit 1
        fi
        [ $RANK = 3 ] || exec sleep 100
        until [ -e pid ]; do sleep 0.02; done
        while kill -0 $(cat pid) 2>&-; do sleep 0.02; done
        sleep 0.5; echo 'RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.' >&2; exit 75)"};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  for (const auto* node : {&first, &second}) {
    CHECK((*node)->wait() == 75);
    CHECK_THAT((*node)->err(), Matches("[^]* failed: rank 3 [^]*"));
  }
}

TEST_CASE(
    "an elastic job goes on without a node whose agent was killed, for no restart, and leaves no process") {
  // The last call never ends by itself: the round closes when the third is there, however slow the machine.
  Cluster cluster{.nnodes = "2:3",
                  .script = {},
                  .flags = {"--rdzv-conf", "last_call_timeout=60,keep_alive_interval=0.2"}};
  const std::string token = "token-" + cluster.port + "-" + std::to_string(::getpid());
  cluster.script =
      "echo up; : " + token +
      "; [ $TORCHELASTIC_RESTART_COUNT = 0 ] && sleep 100; "
      "echo $WORLD_SIZE workers, start $TORCHELASTIC_RESTART_COUNT, restarts $TORCHELASTIC_MAX_RESTARTS";
  const auto a = cluster.start_dynamic();
  wait_until_served(cluster.port);
  const auto b = cluster.start_dynamic();
  const auto c = cluster.start_dynamic();
  for (const auto* node : {&a, &b, &c}) (*node)->read_line();
  c->signal(SIGKILL);
  CHECK(a->wait() == 0);
  CHECK(b->wait() == 0);
  for (const auto* node : {&a, &b}) {
    CHECK_THAT((*node)->out(), Contains("4 workers, start 1, restarts 0"));
    CHECK_THAT((*node)->err(), Contains("; starting all workers again\n"));
  }
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

// The node of the coordinator has nothing left to do but to wait for the others.
TEST_CASE("the node of the coordinator says for whom it waits, and a signal ends that") {
  const int signal = GENERATE(SIGINT, SIGTERM);
  const Gate gate;
  const Cluster cluster{
      .nnodes = "2",
      .script =
          "[ $RANK = 0 ] || trap '' TERM; echo up; [ $RANK = 0 ] && exec sleep 100; read x < " + gate.path(),
      .flags = {"--shutdown-timeout", "100s"},
      .nproc = "1"};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  first->read_line();
  second->read_line();
  first->signal(SIGINT);
  first->wait_for_err("waiting up to 1 min 45 s for node 1 (");
  first->wait_for_err("to end; Ctrl-C or SIGTERM ends this node without it\n");
  first->signal(signal);
  CHECK(first->wait(10s) == 128 + SIGINT);
  CHECK_THAT(first->err(), Contains("ends without waiting any longer for node 1 ("));
  gate.open();
  CHECK(second->wait() == 128 + SIGINT);
}

TEST_CASE("a node that stays when the job has succeeded holds up the others only until a signal") {
  const Cluster cluster{.nnodes = "2",
                        .script = "exit 0",
                        .flags = {"--rdzv-conf", "keep_alive_interval=60", "--shutdown-timeout", "100s"},
                        .nproc = "1"};
  const auto node = cluster.start_static(0);
  wait_until_served(cluster.port);
  const Wire deaf(cluster.port);
  const auto say = [&](Phase phase, std::uint32_t generation, std::uint64_t sequence) {
    deaf.send(encode(Status{.sequence = sequence, .generation = Generation(generation), .phase = phase}));
  };
  Hello hello{.run_id = "none", .min_nodes = 2, .max_nodes = 2};
  hello.node = {.id = MemberId(7), .host = "deaf", .address = {}, .local_world_size = LocalWorldSize(1)};
  hello.node.pinned = NodeRank(1);
  deaf.send(std::string(kGreeting) + encode(hello));
  REQUIRE(std::holds_alternative<Welcome>(deaf.receive_message()));
  say(Phase::kIdle, 0, 1);
  for (;;) {
    const Message message = deaf.receive_message();
    const auto* order = std::get_if<Order>(&message);
    REQUIRE(order != nullptr);
    if (order->kind == OrderKind::kRun) break;
  }
  say(Phase::kRunning, 1, 2);
  say(Phase::kSucceeded, 1, 3);
  node->wait_for_err("waiting up to 1 min 45 s for node 1 (deaf, 127.0.0.1) to end; ");
  node->signal(SIGTERM);
  CHECK(node->wait(10s) == 0);
  CHECK_THAT(node->err(), Contains("ends without waiting any longer for node 1 (deaf, 127.0.0.1)"));
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
