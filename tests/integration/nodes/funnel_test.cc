#include "tests/integration/nodes/cluster.h"
#include "tests/support/catch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>

// Whose lines are seen on which console.

using namespace ddprun::testing;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

std::ptrdiff_t count_lines(const std::string& text, const std::string& with) {
  std::ptrdiff_t count = 0;
  for (std::size_t at = text.find(with); at != std::string::npos; at = text.find(with, at + 1)) ++count;
  return count;
}

/// The number before `what` in "ddprun: 7 lines are missing"; 0: nobody says it.
std::ptrdiff_t count_before(const std::string& said, const std::string& what) {
  const std::size_t at = said.find(what);
  return at == std::string::npos ? 0 : std::atol(said.c_str() + said.rfind(' ', at - 1) + 1);
}

/// One worker, whose lines go to a coordinator of its own. They have met, and the worker is ready, when this is made.
struct FarConsole {
  explicit FarConsole(const std::string& script, const std::string& conf = "keep_alive_interval=1",
                      const std::string& to_be_ready = ":")
      : coordinator(ddprun_command({"coordinator", "--bind", "127.0.0.1:" + port, "--nnodes", "1:2",
                                    "--rdzv-id", "job", "--rdzv-conf", conf + ",last_call_timeout=0"})) {
    CHECK(coordinator.read_line() == port);
    const Cluster cluster{.nnodes = "1:2",
                          .script = to_be_ready + "; echo up; " + script,
                          .port = port,
                          .flags = {"--log-funnel", "--rdzv-conf", "is_host=0"},
                          .nproc = "1"};
    node = cluster.start_dynamic();
    CHECK_THAT(coordinator.read_line(), Contains("up"));
  }

  const std::string port = free_port();
  Launched coordinator;
  std::unique_ptr<Launched> node;
};

std::string this_host() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

TEST_CASE("--log-funnel shows whole lines of all nodes, with rank and host, where the coordinator runs") {
  const Cluster cluster{
      .nnodes = "3",
      .script = "echo hello from $RANK; echo trouble in $RANK >&2; printf 'half of %s' $RANK",
      .flags = {"--log-funnel"}};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  const auto third = cluster.start_static(2);
  CHECK(first->wait() == 0);
  CHECK(second->wait() == 0);
  CHECK(third->wait() == 0);
  for (int rank = 0; rank < 6; ++rank) {
    const std::string before = "[" + std::to_string(rank) + "@" + this_host() + "] ";
    CHECK_THAT(first->out(), Contains(before + "hello from " + std::to_string(rank) + "\n"));
    CHECK_THAT(first->out(), Contains(before + "half of " + std::to_string(rank)));
    CHECK_THAT(first->err(), Contains(before + "trouble in " + std::to_string(rank) + "\n"));
  }
  CHECK(second->out().empty());
  CHECK(third->out().empty());
}

TEST_CASE("ten thousand lines of each node arrive whole, and in their order") {
  const Cluster cluster{.nnodes = "2",
                        .script = "i=0; while [ $i -lt 10000 ]; do echo line $i; i=$((i+1)); done",
                        .flags = {"--log-funnel"},
                        .nproc = "1"};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  CHECK(first->wait() == 0);
  CHECK(second->wait() == 0);
  const std::string before = "[1@" + this_host() + "] line ";
  CHECK(count_lines(first->out(), before) == 10000);
  std::size_t at = 0;
  for (int i = 0; i < 10000 && at != std::string::npos; ++i) {
    at = first->out().find(before + std::to_string(i) + "\n", at);
  }
  CHECK(at != std::string::npos);
}

TEST_CASE(
    "a console that takes nothing holds up no worker of any node; what was dropped is counted and said") {
  // Eighty megabytes of one node, and a reader that begins when all of it has been written.
  const Cluster cluster{
      .nnodes = "2",
      .script = "yes 0123456789012345678901234567890123456789012345678901234567890123456789 | head -n 1200000",
      .flags = {"--log-funnel"},
      .nproc = "1"};
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  ddprun::UniqueFd reader(ends[0]);
  ddprun::UniqueFd writer(ends[1]);
  LaunchOptions stuck;
  stuck.stdout_fd = writer.get();
  Launched first(
      ddprun_command({"--node-rank", "0", "--master-addr", "127.0.0.1", "--master-port", cluster.port,
                      "--nnodes", "2", "--log-funnel", "--no-python", "/bin/sh", "-c", "exit 0"}),
      stuck);
  writer.reset();
  const auto second = cluster.start_static(1);
  CHECK(second->wait() == 0);  // its worker was held up by nobody
  CHECK_THAT(second->err(), !Contains("are lost"));
  std::string shown(1 << 16, '\0');
  std::string all;
  for (ssize_t count = 0; (count = ::read(reader.get(), shown.data(), shown.size())) > 0;) {
    all.append(shown.data(), static_cast<std::size_t>(count));
  }
  CHECK(first.wait() == 0);
  const std::ptrdiff_t lines = std::count(all.begin(), all.end(), '\n');
  CHECK(lines < 1'200'000);
  CHECK(all.size() < 52U << 20U);  // launcher/output/remote_lines.h, and what pipes and buffers hold
  std::ptrdiff_t missing = 0;
  const std::string said = first.err();
  for (std::size_t at = said.find("ddprun: "); at != std::string::npos; at = said.find("ddprun: ", at + 1)) {
    if (said.find(" missing here", at) == std::string::npos) break;
    missing += std::atol(said.c_str() + at + 8);
  }
  CHECK_THAT(said, Contains(" missing here: they came faster than "));
  CHECK(lines + missing == 1'200'000);
}

TEST_CASE("--log-funnel of a job of one node only names rank and host") {
  Launched job(ddprun_command(
      {"--nproc-per-node", "2", "--log-funnel", "--no-python", "/bin/sh", "-c", "echo $RANK"}));
  CHECK(job.wait() == 0);
  CHECK_THAT(job.out(), Contains("[0@" + this_host() + "] 0\n") && Contains("[1@" + this_host() + "] 1\n"));
}

TEST_CASE("--log-funnel and --fold: the lines of a node are folded before they go") {
  const Cluster cluster{
      .nnodes = "2", .script = "echo node $GROUP_RANK", .flags = {"--log-funnel", "--fold"}};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  CHECK(first->wait() == 0);
  CHECK(second->wait() == 0);
  CHECK_THAT(first->out(), Contains("[0-1] node 0\n") && Contains("[2-3] node 1\n"));
}

TEST_CASE("a node whose lines a coordinator does not take can be told to end, and says what is lost") {
  const Gate gate;
  FarConsole job("read -r line <" + gate.path() +
                 "; yes 0123456789012345678901234567890123456789 | head -c 12000000; "
                 "kill -TERM $PPID; exec sleep 100");
  Launched& coordinator = job.coordinator;
  coordinator.signal(SIGSTOP);
  gate.open();
  job.node->wait_for_err("waiting for the coordinator to take what is left");
  job.node->signal(SIGTERM);
  CHECK(job.node->wait(5s) == 75);
  CHECK_THAT(job.node->err(),
             Contains(" bytes for the coordinator's console are lost: the coordinator did not take them"));
  coordinator.signal(SIGKILL);
  coordinator.wait();
}

TEST_CASE("a node waits until its coordinator has taken what the kernel still holds of its lines") {
  const Gate gate;
  // More than the coordinator's kernel takes for one who does not read, and less than both kernels hold.
  FarConsole job("read -r line <" + gate.path() +
                 "; yes 012345678901234567890123456789 | head -n 60000; "
                 "kill -TERM $PPID; exec sleep 100");
  Launched& coordinator = job.coordinator;
  coordinator.signal(SIGSTOP);
  gate.open();
  job.node->wait_for_err("waiting for the coordinator to take what is left");
  coordinator.signal(SIGCONT);
  CHECK(job.node->wait() == 75);
  CHECK_THAT(job.node->err(), !Contains("are lost"));
  CHECK(coordinator.wait() == 75);
  CHECK(count_lines(coordinator.out(), "] 012345678901234567890123456789\n") == 60000);
}

TEST_CASE(
    "lines that were under way to a coordinator that stood still are shown, or it is said how many are not") {
  const Gate gate;
  // More than the coordinator's kernel takes for one who does not read, and less than the node lets wait.
  FarConsole job("read -r line <" + gate.path() + "; yes 012345678901234567890123456789 | head -n 60000",
                 "keep_alive_interval=0.3");
  Launched& coordinator = job.coordinator;
  coordinator.signal(SIGSTOP);
  gate.open();
  job.node->wait_for_err("the coordinator has not answered");
  coordinator.signal(SIGCONT);
  CHECK(job.node->wait() == 0);
  CHECK(coordinator.wait() == 0);
  const std::string line = "[0@" + this_host() + "] 012345678901234567890123456789\n";
  const std::ptrdiff_t missing = count_before(coordinator.err(), " lines of node ");
  CHECK(count_lines(coordinator.out(), line) + missing == 60000);
  const std::ptrdiff_t lost =
      count_before(job.node->err(), " bytes for the coordinator's console are lost: ");
  CHECK(lost == missing * static_cast<std::ptrdiff_t>(line.size()));
}

TEST_CASE("what a node's workers say while it has no coordinator, and ends, comes to its own console") {
  FarConsole job("while :; do sleep 0.05; done", "keep_alive_interval=0.3",
                 "trap 'yes last words | head -n 200; exit 0' TERM");
  Launched& coordinator = job.coordinator;
  coordinator.signal(SIGKILL);
  coordinator.wait();
  job.node->wait_for_err("no coordinator at ");
  job.node->signal(SIGTERM);
  CHECK(job.node->wait() == 75);
  CHECK(count_lines(job.node->out(), "] last words\n") == 200);
}

TEST_CASE("--log-funnel ends at a coordinator of its own") {
  const std::string port = free_port();
  Launched coordinator(
      ddprun_command({"coordinator", "--bind", "127.0.0.1:" + port, "--nnodes", "2", "--rdzv-id", "job"}));
  CHECK(coordinator.read_line() == port);
  const Cluster cluster{.nnodes = "2",
                        .script = "echo hello",
                        .port = port,
                        .flags = {"--log-funnel", "--rdzv-conf", "is_host=0"}};
  const auto a = cluster.start_dynamic();
  const auto b = cluster.start_dynamic();
  CHECK(a->wait() == 0);
  CHECK(b->wait() == 0);
  CHECK(coordinator.wait() == 0);
  CHECK(count_lines(coordinator.out(), "] hello\n") == 4);
  CHECK((a->out() + b->out()).empty());
}

TEST_CASE("--rank0-only: of all consoles, only rank 0's lines are on one; files have everything") {
  const TempDirectory logs;
  const Cluster cluster{.nnodes = "2",
                        .script = "echo out $RANK; echo err $RANK >&2",
                        .flags = {"--rank0-only", "--tee", "3", "--log-dir", logs.path()}};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  CHECK(first->wait() == 0);
  CHECK(second->wait() == 0);
  CHECK_THAT(first->out(), Contains("out 0"));
  CHECK(count_lines(first->out() + second->out(), "out ") == 1);
  CHECK(count_lines(first->err() + second->err(), "err ") == 1);
}

TEST_CASE("--rank0-only keeps a failed worker's last words for the report") {
  Launched job(ddprun_command({"--nproc-per-node", "2", "--rank0-only", "--no-python", "/bin/sh", "-c",
                               "[ $RANK = 0 ] && exec sleep 100; echo the reason >&2; exit 3"}));
  CHECK(job.wait() == 3);
  CHECK_THAT(job.err(), Contains("| the reason"));
}
