#include "rendezvous/membership/handshake.h"

#include "rendezvous/membership/auth.h"
#include "tests/support/catch.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

// Both sides of the handshake in memory, and everybody who stands between them.

namespace ddprun::membership {
namespace {

using Catch::Matchers::Contains;

const JobSpec kSpec{.run_id = "job", .min_nodes = 2, .max_nodes = 2};
const std::string kSecret = "swordfish";
const std::string kNoSecret;

Hello node_hello(bool is_control = false) {
  Hello hello{
      .run_id = "job", .min_nodes = 2, .max_nodes = 2, .nonce = make_nonce(), .is_control = is_control};
  hello.node.id = MemberId(7);
  hello.node.host = "a";
  return hello;
}

Hello said_by(const AgentHandshake& agent) {
  const std::string bytes = agent.first_bytes().substr(kGreeting.size() + kFrameHeaderBytes);
  return std::get<Hello>(parse_message(bytes).value());
}

AgentHandshake agent_with(const std::string& secret, bool is_control = false) {
  return {node_hello(is_control), secret};
}

CoordinatorHandshake coordinator_with(const std::string& secret) {
  return {kSpec, secret, secret.empty() ? "" : make_nonce(), "10.0.0.2"};
}

template <class What, class Handshake>
What answer(Handshake& side, const Message& message) {
  const auto step = side.handle(message);
  REQUIRE(std::holds_alternative<What>(step));
  return std::get<What>(step);
}

/// One of each kind, none of which was made by whoever knows the secret.
std::vector<Message> forged() {
  return {node_hello(),
          Challenge{.nonce = make_nonce(), .proof = std::string(64, '0')},
          Proof{},
          Welcome{},
          DrainRequest{},
          LogLines{.text = "all is well\n"},
          DoctorWords{"{}"},
          Status{},
          Order{.kind = OrderKind::kRun, .generation = Generation(1), .seat = Seat{}},
          Order{.kind = OrderKind::kEnd, .end = JobEnd{}}};
}

bool is_in(const AgentHandshake& agent) { return agent.is_in(); }
bool is_in(const CoordinatorHandshake& coordinator) { return coordinator.is_admitted(); }

/// Whatever comes, this side lets nobody in any more.
template <class Handshake>
void check_stays_shut(Handshake side) {
  for (const Message& message : forged()) {
    static_cast<void>(side.handle(message));
    CHECK_FALSE(is_in(side));
  }
}

}  // namespace

TEST_CASE("handshake: with one secret, or none on both sides, both are in after as many messages as needed") {
  const bool is_control = GENERATE(false, true);
  AgentHandshake agent = agent_with(kSecret, is_control);
  CoordinatorHandshake coordinator = coordinator_with(kSecret);
  const Proof proof = answer<Proof>(agent, answer<Challenge>(coordinator, said_by(agent)));
  CHECK(coordinator.awaits_proof());
  answer<CoordinatorHandshake::Admitted>(coordinator, proof);
  answer<Welcome>(agent, Welcome{});
  CHECK(agent.is_in());
  CHECK(coordinator.is_admitted());
  CHECK(coordinator.hello().is_control == is_control);
  CHECK(coordinator.hello().node.address == "10.0.0.2");

  AgentHandshake open_agent = agent_with(kNoSecret, is_control);
  CoordinatorHandshake open_coordinator = coordinator_with(kNoSecret);
  answer<CoordinatorHandshake::Admitted>(open_coordinator, said_by(open_agent));
  answer<Welcome>(open_agent, Welcome{});
  CHECK(open_agent.is_in());
}

TEST_CASE("handshake: a coordinator that leaves out its proof is not obeyed, whatever it says instead") {
  const bool is_control = GENERATE(false, true);
  for (const Message& message : forged()) {
    AgentHandshake agent = agent_with(kSecret, is_control);
    const Error error = answer<Error>(agent, message);
    if (!std::holds_alternative<Challenge>(message)) {
      CHECK(error.message() == "sent \"" + std::string(type_of(message)) +
                                   "\" without proving that it knows the job secret; give all nodes the same "
                                   "--rdzv-secret-file (or DDPRUN_SECRET), or none of them one");
    } else {
      CHECK_THAT(error.message(), Contains("has another job secret than this node"));
    }
    CHECK(error.code() == ErrorCode::kUsage);
    check_stays_shut(agent);
  }
}

TEST_CASE("handshake: a coordinator that was proven sends a welcome next, and nothing else") {
  for (const Message& message : forged()) {
    if (std::holds_alternative<Welcome>(message)) continue;
    AgentHandshake agent = agent_with(kSecret);
    CoordinatorHandshake coordinator = coordinator_with(kSecret);
    answer<Proof>(agent, answer<Challenge>(coordinator, said_by(agent)));
    CHECK(answer<Error>(agent, message).message() ==
          "sent \"" + std::string(type_of(message)) +
              "\" where a welcome belongs: it is no ddprun coordinator of this version");
    check_stays_shut(agent);
  }
}

TEST_CASE("handshake: an agent without a secret takes a welcome, and nothing else") {
  for (const Message& message : forged()) {
    if (std::holds_alternative<Welcome>(message)) continue;
    AgentHandshake agent = agent_with(kNoSecret);
    CHECK(answer<Error>(agent, message).code() == ErrorCode::kUnavailable);
    check_stays_shut(agent);
  }
}

TEST_CASE("handshake: a refusal is heard at every step, and nothing after it") {
  AgentHandshake early = agent_with(kSecret);
  CHECK(answer<Refused>(early, Refused{.reason = "no", .may_return = true}).reason == "no");
  check_stays_shut(early);
  AgentHandshake late = agent_with(kSecret);
  CoordinatorHandshake coordinator = coordinator_with(kSecret);
  answer<Proof>(late, answer<Challenge>(coordinator, said_by(late)));
  answer<Refused>(late, Refused{.reason = "no"});
  check_stays_shut(late);
}

TEST_CASE("handshake: an agent that leaves out its hello or its proof is refused, whatever it says instead") {
  const std::string& secret = GENERATE(false, true) ? kSecret : kNoSecret;
  for (const Message& message : forged()) {
    if (!std::holds_alternative<Hello>(message)) {
      CoordinatorHandshake coordinator = coordinator_with(secret);
      CHECK(answer<Refused>(coordinator, message).reason ==
            "it sent \"" + std::string(type_of(message)) +
                "\" before it was let in, where \"hello\" belongs");
      check_stays_shut(coordinator);
    }
    CoordinatorHandshake coordinator = coordinator_with(kSecret);
    answer<Challenge>(coordinator, said_by(agent_with(kSecret)));
    answer<Refused>(coordinator, message);
    check_stays_shut(coordinator);
  }
}

TEST_CASE("handshake: what was recorded opens neither side's door again") {
  AgentHandshake agent = agent_with(kSecret);
  CoordinatorHandshake coordinator = coordinator_with(kSecret);
  const Hello hello = said_by(agent);
  const Challenge challenge = answer<Challenge>(coordinator, hello);
  const Proof proof = answer<Proof>(agent, challenge);

  CoordinatorHandshake again = coordinator_with(kSecret);
  answer<Challenge>(again, hello);
  CHECK(answer<Refused>(again, proof).reason ==
        "node a (10.0.0.2) has another job secret than the coordinator, or repeats an old proof");
  AgentHandshake other = agent_with(kSecret);
  CHECK_THAT(answer<Error>(other, challenge).message(), Contains("has another job secret than this node"));
}

TEST_CASE("handshake: a side's own proof, sent back to it, proves nothing") {
  AgentHandshake agent = agent_with(kSecret);
  CoordinatorHandshake coordinator = coordinator_with(kSecret);
  const Challenge challenge = answer<Challenge>(coordinator, said_by(agent));
  CoordinatorHandshake mirrored = coordinator;
  answer<Refused>(mirrored, Proof{challenge.proof});
  const Proof proof = answer<Proof>(agent, challenge);
  AgentHandshake fooled = agent_with(kSecret);
  answer<Error>(fooled, Challenge{challenge.nonce, proof.proof});
}

TEST_CASE("handshake: whoever changes the hello on its way is found out by both sides") {
  const bool was_control = GENERATE(false, true);
  const auto [name, change] = GENERATE(table<std::string, void (*)(Hello&)>({
      {"a drain becomes a membership, or a membership a drain",
       [](Hello& h) { h.is_control = !h.is_control; }},
      {"another node rank", [](Hello& h) { h.node.pinned = NodeRank(1); }},
      {"another member", [](Hello& h) { h.node.id = MemberId(8); }},
      {"another host", [](Hello& h) { h.node.host = "b"; }},
      {"more workers", [](Hello& h) { h.node.local_world_size = LocalWorldSize(8); }},
      {"another role", [](Hello& h) { h.node.role = "evaluator"; }},
      {"somebody's successor", [](Hello& h) { h.node.replaces = MemberId(9); }},
      {"another generation", [](Hello& h) { h.node.last_generation = Generation(9); }},
      {"another nonce", [](Hello& h) { h.nonce = make_nonce(); }},
  }));
  INFO(name);
  AgentHandshake agent = agent_with(kSecret, was_control);
  CoordinatorHandshake coordinator = coordinator_with(kSecret);
  Hello changed = said_by(agent);
  change(changed);
  const Challenge challenge = answer<Challenge>(coordinator, changed);
  answer<Error>(agent, challenge);  // the agent says nothing more
  AgentHandshake honest = agent_with(kSecret, was_control);
  const Hello hello = said_by(honest);
  const std::string frame = encode(hello);
  answer<Refused>(coordinator, Proof{make_proof(kSecret, Side::kAgent, frame, challenge.nonce)});
}

TEST_CASE("handshake: another job, other sizes or one-sided secrets are refused before anything is proven") {
  Hello other_job = node_hello();
  other_job.run_id = "other";
  other_job.has_secret = true;
  CoordinatorHandshake first = coordinator_with(kSecret);
  answer<Refused>(first, other_job);
  Hello other_size = node_hello();
  other_size.max_nodes = 3;
  other_size.has_secret = true;
  CoordinatorHandshake second = coordinator_with(kSecret);
  answer<Refused>(second, other_size);
  CoordinatorHandshake third = coordinator_with(kSecret);
  answer<Refused>(third, said_by(agent_with(kNoSecret)));
  CoordinatorHandshake fourth = coordinator_with(kNoSecret);
  answer<Refused>(fourth, said_by(agent_with(kSecret)));
}

}  // namespace ddprun::membership
