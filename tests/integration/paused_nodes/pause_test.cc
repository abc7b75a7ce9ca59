#include "tests/integration/nodes/cluster.h"
#include "tests/support/catch.h"

#include <chrono>
#include <csignal>
#include <memory>
#include <string>

// A launcher that stands still (SIGSTOP) while nodes meet, or past its lease: it comes back to its job or says
// why not, and what its workers and those of the others come to in the meantime is theirs.

using namespace ddprun;
using namespace ddprun::testing;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

/// The workers of the node that is asked to say their pid, and wait for the gate; then they end with their
/// code. Of each node: "up" once all can be stopped.
struct Pause {
  ddprun::testing::Gate gate;
  Cluster cluster;

  explicit Pause(const std::string& at_the_gate, std::string nproc = "1", const std::string& restarts = "0",
                 const std::string& rejoin_timeout = "2")
      : cluster{.nnodes = "2",
                .script = "echo up $$$$; read x < " + gate.path() + "; " + at_the_gate,
                .flags = {"--rdzv-conf", "keep_alive_interval=0.6,rejoin_timeout=" + rejoin_timeout,
                          "--max-restarts", restarts},
                .nproc = std::move(nproc)} {}

  /// The launchers of both nodes.
  struct Nodes {
    std::unique_ptr<Launched> first;
    std::unique_ptr<Launched> second;
  };
  [[nodiscard]] Nodes start() const { return {cluster.start_static(0), cluster.start_static(1)}; }
};

std::string pid_of(const std::string& up) { return up.substr(up.find(' ') + 1); }

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

void check_nothing_was_run_again(Launched& node) {
  CHECK(node.wait() == 0);
  CHECK_THAT(node.out(), !Contains("up"));  // but for the line that was read
}

/// Ended, and not waited for by its launcher, which stands still.
bool is_zombie(const std::string& pid) {
  return read_file("/proc/" + pid + "/stat").find(") Z ") != std::string::npos;
}

}  // namespace

TEST_CASE("node 0 stands still while another joins: the other waits for it, and the job runs once") {
  const Cluster cluster{.nnodes = "2", .script = "echo up", .nproc = "1"};
  const auto first = cluster.start_static(0);
  wait_until_served(cluster.port);
  first->signal(SIGSTOP);
  const auto second = cluster.start_static(1);
  second->wait_for_err("it does not answer an agent's hello");
  first->signal(SIGCONT);
  CHECK(second->wait() == 0);
  CHECK(first->wait() == 0);
  CHECK(first->out() == "up\n");
  CHECK(second->out() == "up\n");
}

TEST_CASE("a node that stood still while the job ended says so, with its lease, and may be tried again") {
  const Cluster cluster{.nnodes = "2",
                        .script = "echo up; exec sleep 100",
                        .flags = {"--rdzv-conf", "keep_alive_interval=0.2,rejoin_timeout=1"},
                        .nproc = "1"};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  for (const auto* node : {&first, &second}) CHECK((*node)->read_line() == "up");
  second->signal(SIGSTOP);
  CHECK(first->wait() == 75);
  second->signal(SIGCONT);
  CHECK(second->wait() == 75);
  CHECK_THAT(second->err(), Contains("/bin/sh failed: this node stood still and had no answer for ") &&
                                Contains(" s, longer than its lease of 0.80 s; its workers were ended, and "
                                         "the others gave it up; no coordinator at 127.0.0.1:") &&
                                !Contains("stopped by SIGSTOP"));
}

TEST_CASE("a node that stood still while the job went on comes back to it") {
  const Cluster cluster{
      .nnodes = "1:2",
      .script = "echo up; [ $GROUP_WORLD_SIZE$TORCHELASTIC_RESTART_COUNT = 22 ] || exec sleep 100",
      .flags = {"--rdzv-conf", "keep_alive_interval=0.2,last_call_timeout=20"},
      .nproc = "1"};
  const auto first = cluster.start_dynamic();
  wait_until_served(cluster.port);
  const auto second = cluster.start_dynamic();
  for (const auto* node : {&first, &second}) CHECK((*node)->read_line() == "up");
  second->signal(SIGSTOP);
  CHECK(first->read_line() == "up");
  second->signal(SIGCONT);
  CHECK(second->wait() == 0);
  CHECK(first->wait() == 0);
  CHECK_THAT(second->err(),
             Contains("this node stood still and had no answer for ") && Contains("its lease of 0.80 s"));
}

TEST_CASE("a worker that fails while the coordinator's launcher stands still is the cause, on all nodes") {
  const Pause pause("[ $GROUP_RANK = 0 ] && exec sleep 100; exit 7");
  const auto [first, second] = pause.start();
  for (const auto* node : {&first, &second}) (*node)->read_line();
  first->signal(SIGSTOP);
  pause.gate.open();
  second->wait_for_err("the coordinator has not answered for ");
  first->signal(SIGCONT);
  CHECK(second->wait() == 7);
  CHECK(first->wait() == 7);
  CHECK_THAT(first->err(),
             Contains("/bin/sh failed: rank 1 (pid ") && Contains(") exited with code 7 after "));
  CHECK(count(first->err(), " exited with code 7 after ") == 1);
  CHECK_THAT(second->err(), Contains("/bin/sh failed: rank 1 (local rank 0, pid "));
}

TEST_CASE(
    "a node whose worker failed by itself ends with that code, also when no coordinator answers any more") {
  const Pause pause("[ $GROUP_RANK = 0 ] && exec sleep 100; exit 7");
  const auto [first, second] = pause.start();
  for (const auto* node : {&first, &second}) (*node)->read_line();
  first->signal(SIGSTOP);
  pause.gate.open();
  CHECK(second->wait() == 7);
  CHECK_THAT(second->err(), Contains("no coordinator at 127.0.0.1:") &&
                                Contains("/bin/sh failed: rank 1 (local rank 0, pid "));
  first->signal(SIGKILL);
  first->wait();
}

TEST_CASE(
    "a worker that fails while its own launcher stands still has failed, and was not ended by anybody") {
  const Pause pause("[ $GROUP_RANK = 0 ] && exec sleep 100; exit 7");
  const auto [first, second] = pause.start();
  first->read_line();
  const std::string pid = pid_of(second->read_line());
  second->signal(SIGSTOP);
  pause.gate.open();
  CHECK(eventually(10s, [&] { return is_zombie(pid); }));
  CHECK(first->wait() == 75);
  second->signal(SIGCONT);
  CHECK(second->wait() == 7);
  CHECK_THAT(second->err(), Contains("/bin/sh failed: rank 1 (local rank 0, pid " + pid) &&
                                Contains("exited with code 7") && !Contains("SIGKILL"));
}

TEST_CASE("a worker that succeeded while its launcher stood still has succeeded") {
  const Pause pause("[ $RANK = 2 ] && exit 0; exec sleep 100", "2");
  const auto [first, second] = pause.start();
  for (int i = 0; i < 2; ++i) first->read_line();
  const std::string pids[] = {pid_of(second->read_line()), pid_of(second->read_line())};
  second->signal(SIGSTOP);
  for (int i = 0; i < 4; ++i) pause.gate.open();
  for (const std::string& pid : pids) CHECK(eventually(10s, [&] { return is_zombie(pid); }));
  second->signal(SIGCONT);
  CHECK(second->wait() == 75);
  CHECK(first->wait() == 75);
  CHECK_THAT(second->err(), Contains("rank 2 had succeeded") && Contains("rank 3 ended by SIGKILL"));
  CHECK_THAT(first->err(), Contains("node 1 (") && (Contains(": it stood still and had no answer for ") ||
                                                    Contains(" was lost: it was silent for ")));
}

// A node that has succeeded has nothing that a lost lease could end.
TEST_CASE("when all workers succeed while the coordinator's launcher stands still, the job has succeeded") {
  const Pause pause("exit 0", "1", GENERATE("0", "1"));
  const auto [first, second] = pause.start();
  for (const auto* node : {&first, &second}) (*node)->read_line();
  first->signal(SIGSTOP);
  for (int i = 0; i < 2; ++i) pause.gate.open();
  second->wait_for_err("the coordinator has not answered for ");
  first->signal(SIGCONT);
  check_nothing_was_run_again(*first);
  check_nothing_was_run_again(*second);
}

TEST_CASE("a node whose workers succeeded while its launcher stood still says so when it is back") {
  const Pause pause("exit 0", "1", GENERATE("0", "1"), "20");
  const auto [first, second] = pause.start();
  first->read_line();
  const std::string pid = pid_of(second->read_line());
  second->signal(SIGSTOP);
  for (int i = 0; i < 2; ++i) pause.gate.open();
  CHECK(eventually(10s, [&] { return is_zombie(pid); }));
  first->wait_for_err("node 1 (");
  second->signal(SIGCONT);
  check_nothing_was_run_again(*second);
  check_nothing_was_run_again(*first);
  CHECK_THAT(first->err(), Contains("was lost: it was silent for "));
}

TEST_CASE("a success outlives a coordinator that stands still, and one that is started anew") {
  Pause pause("exit 0");
  const auto start_coordinator = [&] {
    auto coordinator = std::make_unique<Launched>(
        ddprun_command({"coordinator", "--bind", "127.0.0.1:" + pause.cluster.port, "--nnodes", "2",
                        "--rdzv-id", "job", "--rdzv-conf", "keep_alive_interval=0.6"}));
    coordinator->read_line();
    return coordinator;
  };
  auto coordinator = start_coordinator();
  pause.cluster.flags = {"--rdzv-conf", "is_host=0"};
  const auto a = pause.cluster.start_dynamic();
  const auto b = pause.cluster.start_dynamic();
  for (const auto* node : {&a, &b}) (*node)->read_line();
  coordinator->signal(SIGSTOP);
  for (int i = 0; i < 2; ++i) pause.gate.open();
  for (const auto* node : {&a, &b}) (*node)->wait_for_err("the coordinator has not answered for ");
  if (GENERATE(false, true)) {
    coordinator->signal(SIGKILL);
    coordinator->wait();
    coordinator = start_coordinator();
  }
  coordinator->signal(SIGCONT);
  check_nothing_was_run_again(*a);
  check_nothing_was_run_again(*b);
  CHECK(coordinator->wait() == 0);
}
