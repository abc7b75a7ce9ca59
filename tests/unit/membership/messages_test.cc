#include "rendezvous/membership/messages.h"

#include "rendezvous/membership/admission.h"
#include "rendezvous/membership/auth.h"
#include "rendezvous/membership/scheduler_env.h"
#include "tests/support/catch.h"

#include <chrono>
#include <map>
#include <string>

namespace ddprun::membership {
namespace {

using namespace std::chrono_literals;

template <class T>
T there_and_back(const T& message) {
  const std::string frame = encode(message);
  return std::get<T>(parse_message(std::string_view(frame).substr(kFrameHeaderBytes)).value());
}

std::string problem(std::string_view json) { return parse_message(json).error().message(); }

Hello hello_of(const std::string& host) {
  Hello hello{.run_id = "cifar", .min_nodes = 2, .max_nodes = 2, .nonce = "00"};
  hello.node.id = MemberId(7);
  hello.node.host = host;
  hello.node.address = "10.0.0.2";
  return hello;
}

const AdmissionRules kRules{.spec = {.run_id = "cifar", .min_nodes = 2, .max_nodes = 2}};

}  // namespace

TEST_CASE("a status arrives as it was sent, with a failure in it") {
  NodeFailure failure{.worker = WorkerEnd{.rank = Rank(3), .pid = 4711},
                      .host = "b",
                      .exit_code = 137,
                      .what = "rank 3 was killed"};
  failure.final_because = "exit code 93";
  failure.account.diagnosis = "out of memory: the limit of 2 GiB";
  failure.account.stderr_tail = "Traceback\n";
  failure.account.is_traceback = true;
  failure.weight = Weight::kDoubtful;
  failure.has_left = true;
  failure.stood_still = true;
  failure.waited_in_vain = true;
  failure.victim = Rank(3);
  failure.worker->status = GENERATE(ExitStatus::exited(7), ExitStatus::killed(9));
  failure.worker->started_wall = std::chrono::system_clock::time_point(1'700'000'000s);
  failure.worker->ended_wall = failure.worker->started_wall + 1s;
  const Status status{.sequence = 18'000'000'000'000'000'000ULL,
                      .generation = Generation(2),
                      .phase = Phase::kStopping,
                      .failure = failure,
                      .leaving_signal = 15,
                      .cut_off = "it was not answered for 4.00 s"};
  CHECK(there_and_back(status) == status);
}

TEST_CASE("an order arrives as it was sent, with seat, end and restart") {
  const Order order{.kind = OrderKind::kRun,
                    .acknowledged = 9,
                    .generation = Generation(3),
                    .text = "why",
                    .seat = Seat{.generation = Generation(3),
                                 .restarts_used = 1,
                                 .node_rank = NodeRank(1),
                                 .nodes = 2,
                                 .base_rank = Rank(4),
                                 .world_size = WorldSize(8)},
                    .end = JobEnd{.exit_code = 7, .why = "because"},
                    .restart = Restart{.restart_count = 2,
                                       .number = 1,
                                       .allowed = 3,
                                       .delay = std::chrono::milliseconds(500),
                                       .why = "rank 1 failed"}};
  CHECK(there_and_back(order) == order);
}

TEST_CASE("the longest message of lines, in the worst bytes, fits into a frame") {
  const std::string frame = encode(LogLines{.text = std::string(kMaxLogBytes, '\x01')});
  CHECK(frame.size() <= kFrameHeaderBytes + kMaxFrameBytes);
}

TEST_CASE("lines travel with what is missing before them") {
  const LogLines lines = there_and_back(LogLines{.is_stderr = true, .text = "a\nb\n", .dropped_before = 7});
  CHECK(lines.is_stderr);
  CHECK(lines.text == "a\nb\n");
  CHECK(lines.dropped_before == 7);
}

TEST_CASE("what a node sees of its ranks travels with who sees it, and the longest part fits into a frame") {
  const LookAnswer answer = there_and_back(
      LookAnswer{.number = 3, .from = 9, .node = "b (10.0.0.2)", .text = "{}", .is_last = true});
  CHECK(answer.number == 3);
  CHECK(answer.from == 9);
  CHECK(answer.node == "b (10.0.0.2)");
  CHECK(answer.text == "{}");
  CHECK(answer.is_last);
  CHECK(there_and_back(LookRequest{.number = 4, .most_bytes = 5}).most_bytes == 5);
  const std::string frame = encode(LookAnswer{.node = "b", .text = std::string(kMaxLookBytes, '"')});
  CHECK(frame.size() <= kFrameHeaderBytes + kMaxFrameBytes);
}

TEST_CASE("who knows the question of ps --watch says so, and it is told from that of why") {
  CHECK(there_and_back(Welcome{.knows_numbers = true}).knows_numbers);
  CHECK(there_and_back(Status{.knows_numbers = true}).knows_numbers);
  CHECK(there_and_back(LookRequest{.kind = LookKind::kNumbers}).kind == LookKind::kNumbers);
  CHECK(there_and_back(LookAnswer{.node = "b", .is_older = true}).is_older);
  // As of an older one.
  CHECK_FALSE(there_and_back(Welcome{}).knows_numbers);
  CHECK_FALSE(there_and_back(Status{}).knows_numbers);
  CHECK(there_and_back(LookRequest{}).kind == LookKind::kWhy);
}

TEST_CASE("the longest report of a failure fits into a frame, and keeps the end of stderr") {
  const std::string worst(100'000, '\x01');
  Status status{.failure = NodeFailure{.exit_code = 1,
                                       .account = {.diagnosis = worst,
                                                   .error_message = worst,
                                                   .error_stack = worst,
                                                   .stderr_tail = worst + "the end"}}};
  CHECK(encode(status).size() <= kFrameHeaderBytes + kMaxFrameBytes);
  CHECK_THAT(there_and_back(status).failure->account.stderr_tail, Catch::Matchers::EndsWith("the end"));
}

TEST_CASE("last words of any bytes and length fit into a message") {
  Status status{.failure =
                    NodeFailure{.exit_code = 1, .account = {.stderr_tail = std::string(100'000, '\xff')}}};
  CHECK(encode(status).size() < kMaxFrameBytes);
  CHECK(there_and_back(status).failure->account.stderr_tail.size() ==
        3 * kMaxTailBytes);  // U+FFFD for each byte
}

TEST_CASE("what another node says of a failure is made fit for a line where it is read") {
  const std::string frame =
      encode(Status{.failure = NodeFailure{.what = "WHAT", .account = {.diagnosis = "WHY"}}});
  std::string json = frame.substr(kFrameHeaderBytes);
  json.replace(json.find("WHAT"), 4, "rank 1\\nexited");
  json.replace(json.find("WHY"), 3, "\\u001b[31mboom" + std::string(100'000, 'x'));
  const NodeFailure failure = *std::get<Status>(parse_message(json).value()).failure;
  CHECK(failure.what == "rank 1\\x0aexited");
  CHECK_THAT(failure.account.diagnosis, Catch::Matchers::StartsWith("\\x1b[31mboomxx"));
  CHECK(failure.account.diagnosis.size() <= kMaxErrorBytes);
}

TEST_CASE("a heartbeat is small") {
  CHECK(encode(Status{.sequence = 1000, .generation = Generation(12), .phase = Phase::kRunning}).size() < 80);
}

TEST_CASE("messages that are no messages are named") {
  CHECK(problem("[1,2]") == "a message that is no JSON object");
  CHECK(problem("{\"type\":\"gossip\"}") ==
        "a message \"gossip\" whose \"type\" is missing or not a known one");
  CHECK(problem("{\"type\":\"status\",\"seq\":1,\"gen\":-4,\"phase\":\"idle\"}") ==
        "a message \"status\" whose \"gen\" is missing or not from 0 to 1000000");
  CHECK(problem("{\"type\":\"status\",\"seq\":1,\"gen\":1,\"phase\":\"dancing\"}") ==
        "a message \"status\" whose \"phase\" is missing or not a phase");
  CHECK(problem("{\"type\":\"order\",\"ack\":\"x\",\"gen\":1,\"kind\":\"wait\"}") ==
        "a message \"order\" whose \"ack\" is missing or not a whole number");
  // People count generations as an int, from 0.
  CHECK_THAT(problem("{\"type\":\"order\",\"ack\":1,\"gen\":2147483648,\"kind\":\"wait\"}"),
             Catch::Matchers::Contains("whose \"gen\""));
  // A seat is of a generation, and 0 is none.
  const std::string seat =
      R"({"restart_count":0,"restarts":0,"node_rank":0,"nodes":1,"base_rank":0,"world":1,"base_role_rank":0,"role_world":1,"coordinator":"c"})";
  CHECK_THAT(problem(R"({"type":"order","ack":1,"gen":0,"kind":"run","seat":)" + seat + "}"),
             Catch::Matchers::Contains("whose \"gen\""));
}

TEST_CASE("a frame that is too long is refused by its header") {
  const unsigned char header[kFrameHeaderBytes] = {0x7f, 0, 0, 0};
  CHECK(parse_frame_length(header).error().message() == "a frame of 2130706432 bytes, more than 65536");
}

TEST_CASE("a seat tells how many restarts the coordinator allows, where it says so") {
  Order order{.kind = OrderKind::kRun, .generation = Generation(1), .seat = Seat{.coordinator = "c"}};
  CHECK_FALSE(there_and_back(order).seat->restarts_allowed);
  order.seat->restarts_allowed = 3;
  CHECK(there_and_back(order).seat->restarts_allowed == 3);
}

TEST_CASE("a hello tells who hosts the coordinator, and why a node that comes back was cut off") {
  Hello hello = hello_of("b");
  CHECK_FALSE(there_and_back(hello).node.hosts_coordinator);
  hello.node.hosts_coordinator = true;
  hello.node.cut_off = "it was not answered for 4.00 s";
  CHECK(there_and_back(hello).node.hosts_coordinator);
  CHECK(there_and_back(hello).node.cut_off == hello.node.cut_off);
  CHECK_FALSE(there_and_back(hello).node.succeeded);
  hello.node.succeeded = Success{.generation = Generation(3), .node_rank = NodeRank(1), .nodes = 4};
  CHECK(there_and_back(hello).node.succeeded == hello.node.succeeded);
}

TEST_CASE("an agent of another version is told so, whatever else its hello holds") {
  Hello hello = std::get<Hello>(parse_message(R"({"type":"hello","version":9,"nproc":"many"})").value());
  hello.node.address = "10.0.0.2";
  hello.node.host = "b";
  CHECK(*why_not_admitted(hello, kRules) ==
        "node b (10.0.0.2) speaks version 9 of the agents' protocol, the coordinator version 6; use the same "
        "ddprun on all "
        "nodes");
}

TEST_CASE("an agent of another job, size or secret is refused, both sides are named") {
  Hello hello = hello_of("b");
  CHECK_FALSE(why_not_admitted(hello, kRules));
  hello.run_id = "mnist";
  CHECK(*why_not_admitted(hello, kRules) ==
        "node b (10.0.0.2) belongs to job \"mnist\", but job \"cifar\" is served here; give all nodes of a "
        "job one "
        "--rdzv-id, and every job its own endpoint");
  hello = hello_of("b");
  hello.min_nodes = 1;
  CHECK(*why_not_admitted(hello, kRules) ==
        "node b (10.0.0.2) was started with --nnodes 1:2, the coordinator with --nnodes 2; give all nodes "
        "the same");
  hello = hello_of("b");
  hello.has_secret = true;
  CHECK(*why_not_admitted(hello, kRules) ==
        "node b (10.0.0.2) has a job secret, the coordinator has none; give both the same --rdzv-secret-file "
        "(or "
        "DDPRUN_SECRET), or neither");
}

TEST_CASE("a proof fits one side, one hello, one nonce and one secret") {
  const std::string proof = make_proof("secret", Side::kAgent, "hello", "b");
  CHECK(proof.size() == 64);
  CHECK(is_same_proof(proof, make_proof("secret", Side::kAgent, "hello", "b")));
  CHECK_FALSE(is_same_proof(proof, make_proof("secret", Side::kCoordinator, "hello", "b")));
  CHECK_FALSE(is_same_proof(proof, make_proof("secret", Side::kAgent, "hello!", "b")));
  CHECK_FALSE(is_same_proof(proof, make_proof("secret", Side::kAgent, "hello", "c")));
  CHECK_FALSE(is_same_proof(proof, make_proof("Secret", Side::kAgent, "hello", "b")));
  CHECK(make_nonce() != make_nonce());
}

TEST_CASE("the first host of a Slurm node list") {
  CHECK(first_of_nodelist("n[3-5,9],m1") == "n3");
  CHECK(first_of_nodelist("rack-[007-010]-a") == "rack-007-a");
  CHECK(first_of_nodelist("login1,n2") == "login1");
  CHECK(first_of_nodelist("n[") == "");
  CHECK(first_of_nodelist("") == "");
}

TEST_CASE("inside srun the world is known without a flag") {
  std::map<std::string, std::string, std::less<>> env{{"SLURM_JOB_ID", "42"},
                                                      {"SLURM_STEP_ID", "0"},
                                                      {"SLURM_PROCID", "1"},
                                                      {"SLURM_NODEID", "1"},
                                                      {"SLURM_STEP_NUM_NODES", "3"},
                                                      {"SLURM_STEP_NUM_TASKS", "3"},
                                                      {"SLURM_STEP_NODELIST", "n[1-3]"}};
  const EnvLookup lookup = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = env.find(name);
    return found == env.end() ? std::nullopt : std::optional(found->second);
  };
  const std::optional<SchedulerWorld> world = recognise_scheduler(lookup).value();
  REQUIRE(world);
  CHECK(world->nodes == 3);
  CHECK(world->node_rank == 1);
  CHECK(world->first_host == "n1");
  CHECK(world->run_id == "slurm-42.0.0");
  env["SLURM_STEP_NUM_TASKS"] = "6";
  CHECK(recognise_scheduler(lookup).error().message() ==
        "Slurm started 6 tasks on 3 nodes, but ddprun is started once on each node and starts the workers "
        "itself; use srun "
        "--ntasks-per-node=1");
  env.erase("SLURM_STEP_ID");  // the batch script itself
  CHECK_FALSE(recognise_scheduler(lookup).value());
}

}  // namespace ddprun::membership
