#include "rendezvous/membership/auth.h"
#include "rendezvous/membership/messages.h"
#include "rendezvous/store/wire.h"
#include "tests/integration/nodes/cluster.h"
#include "tests/integration/nodes/wire.h"
#include "tests/support/catch.h"

#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>

// Who is kept out of a job by its secret, as seen on the wire and on both sides' consoles.

using namespace ddprun;
using namespace ddprun::membership;
using namespace ddprun::testing;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

Hello hello_of(const std::string& host, bool has_secret) {
  Hello hello{
      .run_id = "job", .min_nodes = 2, .max_nodes = 2, .has_secret = has_secret, .nonce = make_nonce()};
  hello.node.id = MemberId(7);
  hello.node.host = host;
  return hello;
}

/// How a client of the store introduces itself: VALIDATE, then PING with a number that comes back.
std::string store_greeting() {
  return store::encode({.opcode = store::Opcode::kValidate, .nonce = store::kValidateMagic}) +
         store::encode({.opcode = store::Opcode::kPing, .nonce = 4711});
}

struct Secrets {
  explicit Secrets(const std::string& text, mode_t mode = 0600) : path(folder.path() + "/secret") {
    std::ofstream(path) << text << "\n";
    ::chmod(path.c_str(), mode);
  }
  TempDirectory folder;
  std::string path;
};

std::unique_ptr<Launched> start_coordinator(const std::string& port, const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"coordinator", "--bind", "127.0.0.1:" + port, "--nnodes", "2",
                                     "--rdzv-id",   "job"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  auto coordinator = std::make_unique<Launched>(ddprun_command(arguments));
  CHECK(coordinator->read_line() == port);
  return coordinator;
}
std::unique_ptr<Launched> start_coordinator(const std::string& port, const Secrets& secret) {
  return start_coordinator(port, {"--rdzv-secret-file", secret.path});
}

/// Connections that never say more than a part of what they should; all of it has been taken.
std::vector<Wire> half_introduced(const std::string& port, bool has_secret) {
  const std::string hello = std::string(kGreeting) + encode(hello_of("a", has_secret));
  std::vector<Wire> strangers;
  for (const std::size_t bytes : {0UL, 1UL, 2UL, 3UL, 4UL, 7UL, 8UL, hello.size() / 2}) {
    strangers.emplace_back(port);
    if (bytes > 0) strangers.back().send(hello.substr(0, bytes));
  }
  strangers.emplace_back(port);
  strangers.back().send(store_greeting().substr(0, 3));
  Hello refused = hello_of("b", has_secret);
  refused.run_id = "other";
  strangers.emplace_back(port);  // does not close its end
  strangers.back().send(std::string(kGreeting) + encode(refused));
  CHECK(std::holds_alternative<Refused>(strangers.back().receive_message()));
  return strangers;
}

}  // namespace

TEST_CASE("nodes with one secret meet, from a file or the environment, and their workers do not see it") {
  const Secrets secret("swordfish");
  Cluster cluster{
      .nnodes = "2", .script = "echo secret: $DDPRUN_SECRET.", .flags = {"--rdzv-secret-file", secret.path}};
  const auto first = cluster.start_static(0);
  cluster.flags.clear();
  cluster.environment = {{"DDPRUN_SECRET", "swordfish"}};
  const auto second = cluster.start_static(1);
  CHECK(first->wait() == 0);
  CHECK(second->wait() == 0);
  CHECK(first->out() == "secret: .\nsecret: .\n");
  CHECK(second->out() == "secret: .\nsecret: .\n");
}

TEST_CASE(
    "strangers that stop in the middle of a word do not keep a coordinator, told to stop, from its end") {
  const bool has_secret = GENERATE(false, true);
  const Secrets secret("swordfish");
  const std::string port = free_port();
  const auto coordinator = has_secret ? start_coordinator(port, secret) : start_coordinator(port, {});
  const std::vector<Wire> strangers = half_introduced(port, has_secret);
  coordinator->signal(SIGTERM);
  CHECK(coordinator->wait(5s) == 143);
  for (const Wire& stranger : strangers) CHECK(stranger.receive(1).empty());
}

TEST_CASE("strangers that stop in the middle of a word do not keep node 0, told to stop, from its end") {
  const bool has_secret = GENERATE(false, true);
  const Secrets secret("swordfish");
  Cluster cluster{.nnodes = "2", .script = "exit 0"};
  if (has_secret) cluster.flags = {"--rdzv-secret-file", secret.path};
  const auto node = cluster.start_static(0);
  wait_until_served(cluster.port);
  const std::vector<Wire> strangers = half_introduced(cluster.port, has_secret);
  node->signal(SIGTERM);
  CHECK(node->wait(5s) == 75);
}

TEST_CASE("strangers that stop in the middle of a word do not hold up the end of a job") {
  const bool has_secret = GENERATE(false, true);
  const bool has_coordinator = GENERATE(false, true);
  const Secrets secret("swordfish");
  Cluster cluster{.nnodes = "2", .script = "exit 0"};
  if (has_secret) cluster.flags = {"--rdzv-secret-file", secret.path};
  std::vector<std::unique_ptr<Launched>> all;
  if (has_coordinator) all.push_back(start_coordinator(cluster.port, cluster.flags));
  cluster.run_id = "job";
  if (has_coordinator) cluster.flags.insert(cluster.flags.end(), {"--rdzv-conf", "is_host=0"});
  all.push_back(cluster.start_dynamic("a"));
  wait_until_served(cluster.port);
  const std::vector<Wire> strangers = half_introduced(cluster.port, has_secret);
  all.push_back(cluster.start_dynamic("b"));
  for (const auto& each : all) CHECK(each->wait(8s) == 0);
}

TEST_CASE(
    "strangers that take every descriptor of a coordinator and say nothing do not keep the others out") {
  const std::string port = free_port();
  Launched coordinator(
      {"/bin/sh", "-c",
       "ulimit -n 48; exec \"$0\" coordinator --bind 127.0.0.1:" + port + " --nnodes 2 --rdzv-id job",
       ddprun_command({}).front()});
  CHECK(coordinator.read_line() == port);
  std::vector<Wire> strangers;
  for (int i = 0; i < 70; ++i) {
    strangers.emplace_back(port);
    strangers.back().send(std::string(kGreeting.substr(0, i % 2 == 0 ? 1 : 4)));
  }
  Hello honest = hello_of("b", false);
  honest.run_id = "other";
  const Wire last(port);
  last.send(std::string(kGreeting) + encode(honest));
  std::string answer;
  CHECK(eventually(9s, [&] { return !(answer += last.receive(1)).empty(); }));
  coordinator.signal(SIGTERM);
  CHECK(coordinator.wait(5s) == 143);
  CHECK_THAT(coordinator.err(), Contains("cannot accept a connection: Too many open files"));
}

TEST_CASE("another secret: both sides say so") {
  const Secrets right("swordfish");
  const Secrets wrong("herring");
  Cluster cluster{.nnodes = "2", .script = "exit 0", .flags = {"--rdzv-secret-file", right.path}};
  const auto first = cluster.start_static(0);
  wait_until_served(cluster.port);
  cluster.flags = {"--rdzv-secret-file", wrong.path};
  const auto stranger = cluster.start_static(1);
  CHECK(stranger->wait() == 64);
  CHECK_THAT(stranger->err(), Contains("the coordinator at 127.0.0.1:" + cluster.port +
                                       " has another job secret than this node; give all nodes the same "
                                       "--rdzv-secret-file"));
  first->wait_for_err(
      "(127.0.0.1) left when it was asked to prove the job secret: it has another one than the "
      "coordinator; give all nodes the same --rdzv-secret-file");
  first->signal(SIGKILL);
  first->wait();
}

TEST_CASE("a secret on one side only: both sides say so") {
  const Secrets secret("swordfish");
  const std::vector<std::string> with{"--rdzv-secret-file", secret.path};
  const bool coordinator_has_it = GENERATE(true, false);
  const std::string sentence =
      coordinator_has_it ? "(127.0.0.1) has no job secret, but the coordinator has one; give both the same "
                           "--rdzv-secret-file (or DDPRUN_SECRET), or neither"
                         : "(127.0.0.1) has a job secret, the coordinator has none; give both the same "
                           "--rdzv-secret-file (or DDPRUN_SECRET), or neither";
  Cluster cluster{.nnodes = "2", .script = "exit 0"};
  if (coordinator_has_it) cluster.flags = with;
  const auto first = cluster.start_static(0);
  wait_until_served(cluster.port);
  cluster.flags = coordinator_has_it ? std::vector<std::string>{} : with;
  const auto stranger = cluster.start_static(1);
  check_refused(*stranger, *first, sentence);
}

TEST_CASE("a secret of the environment may end with a line end, as that of a file, and must not be empty") {
  const Secrets secret("swordfish");
  Cluster cluster{.nnodes = "2", .script = "exit 0", .flags = {"--rdzv-secret-file", secret.path}};
  const auto first = cluster.start_static(0);
  cluster.flags.clear();
  cluster.environment = {{"DDPRUN_SECRET", "swordfish\n"}};
  const auto second = cluster.start_static(1);
  CHECK(first->wait() == 0);
  CHECK(second->wait() == 0);
  cluster.environment = {{"DDPRUN_SECRET", GENERATE("", "\n")}};
  const auto third = cluster.start_static(1);
  CHECK(third->wait() == 64);
  CHECK_THAT(third->err(), Contains("DDPRUN_SECRET is set and empty: unset it for a job without a secret"));
}

TEST_CASE("a job of one node refuses a secret that is empty or cannot be read, as one of several does") {
  Launched empty(ddprun_command({"--no-python", "true"}), {.environment = {{"DDPRUN_SECRET", ""}}});
  CHECK(empty.wait() == 64);
  CHECK_THAT(empty.err(), Contains("DDPRUN_SECRET is set and empty"));
  Launched unreadable(ddprun_command({"--rdzv-secret-file", "/nonexistent/secret", "--no-python", "true"}));
  CHECK(unreadable.wait() == 64);
  CHECK_THAT(unreadable.err(), Contains("--rdzv-secret-file /nonexistent/secret: No such file or directory"));
}

TEST_CASE("a job of one node that listens on loopback has no need of a secret") {
  Launched job(ddprun_command({"--rdzv-endpoint", "localhost:0", "--no-python", "true"}));
  CHECK(job.wait() == 0);
  CHECK(job.err().empty());
}

TEST_CASE("no process of the job shows the secret of its environment") {
  Cluster cluster{.nnodes = "2",
                  .script = "echo up; exec sleep 100",
                  .nproc = "1",
                  .environment = {{"DDPRUN_SECRET", "swordfish-of-this-test"}}};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  first->read_line();
  second->read_line();
  CHECK(read_file("/proc/" + std::to_string(first->pid()) + "/environ").find("DDPRUN_SECRET=") !=
        std::string::npos);
  CHECK(processes_with("swordfish-of-this-test").empty());
  second->signal(SIGTERM);
  CHECK(first->wait() == 75);
  CHECK(second->wait() == 75);
}

TEST_CASE("a coordinator beyond loopback without a secret says so") {
  const bool is_open = GENERATE(true, false);
  Launched coordinator(
      ddprun_command({"coordinator", "--bind", is_open ? "0" : "127.0.0.1:0", "--nnodes", "2"}));
  const std::string port = coordinator.read_line();
  coordinator.signal(SIGTERM);
  CHECK(coordinator.wait(5s) == 143);
  const std::string warning =
      "no job secret: whoever reaches port " + port + " of this machine can join job none";
  CHECK((coordinator.err().find(warning) != std::string::npos) == is_open);
}

TEST_CASE("what a stranger calls itself reaches the log as one line, and not every time") {
  const std::string port = free_port();
  const auto coordinator = start_coordinator(port, {});
  Hello hello = hello_of("a\n12:00:00.000 warning ddprun: all is well\x1b[2J", false);
  hello.run_id = "job\x1b]0;owned\x07" + std::string(30'000, 'x');
  for (int i = 0; i < 60; ++i) {
    const Wire stranger(port);
    stranger.send(std::string(kGreeting) + encode(hello));
    CHECK(std::holds_alternative<Refused>(stranger.receive_message()));
  }
  coordinator->signal(SIGTERM);
  CHECK(coordinator->wait(5s) == 143);
  CHECK_THAT(coordinator->err(), Contains("node a\\x0a12:00:00.000 warning ddprun: all is well\\x1b[2J ("));
  CHECK(coordinator->err().find('\x1b') == std::string::npos);
  CHECK(coordinator->err().size() < 25 * 700);
  CHECK_THAT(coordinator->err(), Contains("more lines about connections that were turned away are left out"));
}

TEST_CASE("a secret that others may read is refused before anything starts") {
  const Secrets open_to_all("swordfish", 0644);
  const Cluster cluster{.nnodes = "2", .script = "exit 0", .flags = {"--rdzv-secret-file", open_to_all.path}};
  const auto node = cluster.start_static(0);
  CHECK(node->wait() == 64);
  CHECK_THAT(node->err(), Contains("--rdzv-secret-file " + open_to_all.path +
                                   ": others may read or write it (mode 644); chmod 600 it"));
}

TEST_CASE("a recorded handshake does not open the door a second time, and the reason is named") {
  const Secrets secret("swordfish");
  const std::string port = free_port();
  const auto coordinator = start_coordinator(port, secret);
  const Hello hello = hello_of("a", true);
  const std::string first_bytes = std::string(kGreeting) + encode(hello);
  std::string proof;
  {
    const Wire honest(port);
    honest.send(first_bytes);
    const auto challenge = std::get<Challenge>(honest.receive_message());
    CHECK(is_same_proof(challenge.proof,
                        make_proof("swordfish", Side::kCoordinator, encode(hello), challenge.nonce)));
    proof = encode(Proof{make_proof("swordfish", Side::kAgent, encode(hello), challenge.nonce)});
    honest.send(proof);
    CHECK(std::holds_alternative<Welcome>(honest.receive_message()));
  }
  const Wire replay(port);
  replay.send(first_bytes);
  CHECK(std::holds_alternative<Challenge>(replay.receive_message()));
  replay.send(proof);
  const auto refused = std::get<Refused>(replay.receive_message());
  CHECK(refused.reason ==
        "node a (127.0.0.1) has another job secret than the coordinator, or repeats an old proof");
  CHECK_FALSE(refused.may_return);
}

TEST_CASE("the coordinator's own proof, sent back to it, proves nothing") {
  const Secrets secret("swordfish");
  const std::string port = free_port();
  const auto coordinator = start_coordinator(port, secret);
  const Wire mirror(port);
  mirror.send(std::string(kGreeting) + encode(hello_of("a", true)));
  mirror.send(encode(Proof{std::get<Challenge>(mirror.receive_message()).proof}));
  CHECK_THAT(std::get<Refused>(mirror.receive_message()).reason, Contains("has another job secret"));
}

TEST_CASE("who has not proven the secret cannot drain the job, or send lines to its console") {
  const Secrets secret("swordfish");
  const std::string port = free_port();
  const auto coordinator = start_coordinator(port, secret);
  Hello control = hello_of("ddprun drain", true);
  control.is_control = true;
  const Wire stranger(port);
  stranger.send(std::string(kGreeting) + encode(control));
  CHECK(std::holds_alternative<Challenge>(stranger.receive_message()));
  stranger.send(encode(DrainRequest{}));
  CHECK(std::get<Refused>(stranger.receive_message()).reason ==
        "it sent \"drain\" before it was let in, where \"proof\" belongs");
  const Wire talker(port);
  talker.send(std::string(kGreeting) + encode(hello_of("b", true)));
  CHECK(std::holds_alternative<Challenge>(talker.receive_message()));
  talker.send(encode(LogLines{.text = "all is well\n"}));
  CHECK(std::holds_alternative<Refused>(talker.receive_message()));
  coordinator->signal(SIGTERM);
  CHECK(coordinator->wait() != 0);
  CHECK(coordinator->out().find("all is well") == std::string::npos);
}

TEST_CASE("with a secret, the store takes connections from members' addresses only") {
  const Secrets secret("swordfish");
  const Cluster cluster{.nnodes = "2",
                        .script = "echo up; exec sleep 100",
                        .flags = {"--rdzv-secret-file", secret.path},
                        .nproc = "1"};
  const auto first = cluster.start_static(0);
  const auto second = cluster.start_static(1);
  first->read_line();
  second->read_line();
  const Wire member(cluster.port);
  member.send(store_greeting());
  CHECK(member.receive(4).size() == 4);
  const Wire stranger(cluster.port, "127.0.0.2");
  stranger.send(store_greeting());
  CHECK(stranger.receive(1).empty());
  second->signal(SIGTERM);
  CHECK(first->wait() == 75);
  CHECK(second->wait() == 75);
}

TEST_CASE("a coordinator that does not prove the secret is not obeyed by a node that has one") {
  const Secrets secret("swordfish");
  const ListeningPort impostor;
  const Cluster cluster{.nnodes = "2",
                        .script = "echo worker",
                        .port = impostor.port(),
                        .flags = {"--rdzv-secret-file", secret.path}};
  const auto node = cluster.start_static(1);
  const Wire connection = impostor.accept();
  CHECK(connection.receive(kGreeting.size()) == kGreeting);
  CHECK(std::get<Hello>(connection.receive_message()).has_secret);
  const Seat seat{.generation = Generation(1), .nodes = 2, .world_size = WorldSize(4)};
  connection.send(encode(Welcome{}) +
                  encode(Order{.kind = OrderKind::kRun, .generation = Generation(1), .seat = seat}));
  CHECK(node->wait(5s) == 64);
  CHECK(node->out().empty());
  CHECK_THAT(node->err(), Contains("the coordinator at 127.0.0.1:" + cluster.port +
                                   " sent \"welcome\" without proving that it knows the job secret; give all "
                                   "nodes the same --rdzv-secret-file"));
}

TEST_CASE("a coordinator that does not prove the secret is given no drain, and its answer is none") {
  const Secrets secret("swordfish");
  const ListeningPort impostor;
  const auto answer =
      GENERATE(encode(Welcome{}), encode(Order{.text = "the job is being drained"}),
               encode(Challenge{.nonce = std::string(64, '0'), .proof = std::string(64, '0')}));
  Launched drain(ddprun_command({"drain", "--rdzv-endpoint", "127.0.0.1:" + impostor.port(), "--rdzv-id",
                                 "job", "--rdzv-secret-file", secret.path}));
  const Wire connection = impostor.accept();
  CHECK(connection.receive(kGreeting.size()) == kGreeting);
  CHECK(std::get<Hello>(connection.receive_message()).is_control);
  connection.send(answer);
  CHECK(connection.receive(1).empty());
  CHECK(drain.wait(5s) == 64);
  CHECK_THAT(drain.err(), Contains("job secret"));
}
