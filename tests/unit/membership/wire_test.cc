#include "rendezvous/membership/messages.h"
#include "tests/support/catch.h"

#include <chrono>
#include <string>
#include <vector>

namespace ddprun::membership {
namespace {

using namespace std::chrono_literals;

/// With every field that a message may leave out.
std::vector<Message> one_of_each() {
  Hello hello{.run_id = "r", .min_nodes = 1, .max_nodes = 2, .has_secret = true, .nonce = "00"};
  hello.node = {.id = MemberId(7),
                .host = "b",
                .local_world_size = LocalWorldSize(4),
                .pinned = NodeRank(1),
                .role = "t",
                .replaces = MemberId(6),
                .last_generation = Generation(3),
                .restarts_used = 2,
                .hosts_coordinator = true,
                .cut_off = "late",
                .succeeded = Success{.generation = Generation(3),
                                     .node_rank = NodeRank(1),
                                     .nodes = 2,
                                     .coordinator = "c",
                                     .base_rank = Rank(4)}};
  NodeFailure failure{.worker = WorkerEnd{.rank = Rank(5),
                                          .local_rank = LocalRank(1),
                                          .pid = 99,
                                          .status = ExitStatus::killed(9),
                                          .started_wall = std::chrono::system_clock::time_point(1s),
                                          .ended_wall = std::chrono::system_clock::time_point(2s),
                                          .error_file = "f"},
                      .node_rank = NodeRank(1),
                      .generation = Generation(3),
                      .host = "b",
                      .exit_code = 137,
                      .what = "w",
                      .account = {.diagnosis = "d",
                                  .error_message = "m",
                                  .error_stack = "s",
                                  .stderr_tail = "t\n",
                                  .is_traceback = true},
                      .final_because = "x",
                      .weight = Weight::kDoubtful,
                      .has_left = true,
                      .victim = Rank(2)};
  NodeFailure exited = failure;
  exited.worker->status = ExitStatus::exited(7);
  const Restart restart{
      .restart_count = 2, .number = 1, .allowed = 3, .delay = 500ms, .why = "y", .root_cause = failure};
  const JobEnd end{.exit_code = 7, .why = "y", .root_cause = exited, .restarts_used = 2};
  const Seat seat{.generation = Generation(3),
                  .restarts_used = 1,
                  .node_rank = NodeRank(1),
                  .nodes = 2,
                  .base_rank = Rank(4),
                  .world_size = WorldSize(8),
                  .base_role_rank = Rank(3),
                  .role_world_size = WorldSize(6),
                  .coordinator = "c"};
  return {hello,
          Challenge{"n", "p"},
          Proof{"p"},
          Welcome{.timing = {.heartbeat = 200ms, .missed_heartbeats = 4}, .knows_numbers = true},
          Refused{"r", true},
          DrainRequest{},
          DrainRequest{NodeRank(1)},
          LogLines{true, "a\n", 7},
          LookRequest{.number = 4, .most_bytes = 5, .kind = LookKind::kNumbers},
          LookAnswer{.number = 3, .from = 9, .node = "b", .text = "{}", .is_last = true, .is_older = true},
          DoctorWords{"{}"},
          Status{.sequence = 1,
                 .generation = Generation(3),
                 .phase = Phase::kStopping,
                 .failure = failure,
                 .leaving_signal = 15,
                 .cut_off = "late",
                 .has_heard_end = true,
                 .knows_numbers = true},
          Order{.kind = OrderKind::kRun,
                .acknowledged = 9,
                .generation = Generation(3),
                .text = "t",
                .seat = seat,
                .end = end,
                .restart = restart}};
}

/// Those messages as protocol 6 has them: other bytes are another protocol, and want another number.
const std::vector<std::string> kOnTheWire = {
    R"({"control":false,"coordinator":true,"cut_off":"late","generation":3,"host":"b","max":2,"member":7,"min":1,"node_rank":1,"nonce":"00","nproc":4,"replaces":6,"restarts":2,"role":"t","run_id":"r","secret":true,"succeeded":{"base_rank":4,"coordinator":"c","generation":3,"node_rank":1,"nodes":2},"type":"hello","version":6})",
    R"({"nonce":"n","proof":"p","type":"challenge"})",
    R"({"proof":"p","type":"proof"})",
    R"({"heartbeat_ns":200000000,"missed":4,"numbers":true,"type":"welcome"})",
    R"({"may_return":true,"reason":"r","type":"refused"})",
    R"({"node":null,"type":"drain"})",
    R"({"node":1,"type":"drain"})",
    R"({"dropped":7,"err":true,"text":"a\n","type":"log"})",
    R"({"most":5,"number":4,"type":"look","what":"numbers"})",
    R"({"from":9,"last":true,"node":"b","number":3,"older":true,"text":"{}","type":"seen"})",
    R"({"text":"{}","type":"doctor"})",
    R"({"cut_off":"late","failure":{"diagnosis":"d","ended":2000000000,"error_file":"f","error_message":"m","error_stack":"s","exit_code":137,"final":"x","generation":3,"has_left":true,"host":"b","is_traceback":true,"local_rank":1,"node_rank":1,"pid":99,"rank":5,"signal":9,"started":1000000000,"stderr_tail":"t\n","victim":2,"weight":"doubtful","what":"w"},"gen":3,"heard_end":true,"leaving":15,"numbers":true,"phase":"stopping","seq":1,"type":"status"})",
    R"({"ack":9,"end":{"exit_code":7,"restarts":2,"root_cause":{"code":7,"diagnosis":"d","ended":2000000000,"error_file":"f","error_message":"m","error_stack":"s","exit_code":137,"final":"x","generation":3,"has_left":true,"host":"b","is_traceback":true,"local_rank":1,"node_rank":1,"pid":99,"rank":5,"started":1000000000,"stderr_tail":"t\n","victim":2,"weight":"doubtful","what":"w"},"why":"y"},"gen":3,"kind":"run","restart":{"allowed":3,"delay_ns":500000000,"number":1,"restart_count":2,"root_cause":{"diagnosis":"d","ended":2000000000,"error_file":"f","error_message":"m","error_stack":"s","exit_code":137,"final":"x","generation":3,"has_left":true,"host":"b","is_traceback":true,"local_rank":1,"node_rank":1,"pid":99,"rank":5,"signal":9,"started":1000000000,"stderr_tail":"t\n","victim":2,"weight":"doubtful","what":"w"},"why":"y"},"seat":{"base_rank":4,"base_role_rank":3,"coordinator":"c","node_rank":1,"nodes":2,"restart_count":2,"restarts":1,"role_world":6,"world":8},"text":"t","type":"order"})"};

}  // namespace

TEST_CASE("the bytes of each message are those of its protocol") {
  const std::vector<Message> messages = one_of_each();
  REQUIRE(messages.size() == kOnTheWire.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    CHECK(encode(messages[i]).substr(kFrameHeaderBytes) == kOnTheWire[i]);
    CHECK(encode(parse_message(kOnTheWire[i]).value()).substr(kFrameHeaderBytes) == kOnTheWire[i]);
  }
}

}  // namespace ddprun::membership
