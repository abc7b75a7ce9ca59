#include "rendezvous/membership/handshake.h"

#include "rendezvous/membership/admission.h"
#include "rendezvous/membership/auth.h"

#include <fmt/format.h>

#include <utility>

namespace ddprun::membership {
namespace {

constexpr std::string_view kSameSecret =
    "give all nodes the same --rdzv-secret-file (or DDPRUN_SECRET), or none of them one";

}  // namespace

AgentHandshake::AgentHandshake(Hello hello, std::string secret) : secret_(std::move(secret)) {
  hello.has_secret = !secret_.empty();
  hello_frame_ = encode(hello);
  state_ = hello.has_secret ? State::kAwaitsChallenge : State::kAwaitsWelcome;
}

std::string AgentHandshake::first_bytes() const { return std::string(kGreeting) + hello_frame_; }

AgentHandshake::Step AgentHandshake::out(Error error) {
  state_ = State::kIsOut;
  return error;
}

AgentHandshake::Step AgentHandshake::handle(const Message& message) {
  const bool is_over = state_ == State::kIsIn || state_ == State::kIsOut;
  if (const auto* refused = std::get_if<Refused>(&message); refused != nullptr && !is_over) {
    state_ = State::kIsOut;
    return *refused;
  }
  const auto* challenge = std::get_if<Challenge>(&message);
  if (challenge != nullptr && state_ == State::kAwaitsChallenge) return handle_challenge(*challenge);
  const auto* welcome = std::get_if<Welcome>(&message);
  if (welcome != nullptr && state_ == State::kAwaitsWelcome) {
    state_ = State::kIsIn;
    return *welcome;
  }
  if (state_ == State::kAwaitsChallenge) {
    return out({ErrorCode::kUsage, fmt::format("sent \"{}\" without proving that it knows the job secret; {}",
                                               type_of(message), kSameSecret)});
  }
  return out({ErrorCode::kUnavailable,
              fmt::format("sent \"{}\" where a welcome belongs: it is no ddprun coordinator of this version",
                          type_of(message))});
}

AgentHandshake::Step AgentHandshake::handle_challenge(const Challenge& challenge) {
  const std::string expected = make_proof(secret_, Side::kCoordinator, hello_frame_, challenge.nonce);
  if (!is_same_proof(expected, challenge.proof)) {
    return out({ErrorCode::kUsage, fmt::format("has another job secret than this node; {}", kSameSecret)});
  }
  state_ = State::kAwaitsWelcome;
  return Proof{make_proof(secret_, Side::kAgent, hello_frame_, challenge.nonce)};
}

CoordinatorHandshake::CoordinatorHandshake(const JobSpec& spec, const std::string& secret, std::string nonce,
                                           std::string remote_address)
    : spec_(spec), secret_(secret), nonce_(std::move(nonce)), remote_address_(std::move(remote_address)) {}

CoordinatorHandshake::Step CoordinatorHandshake::refuse(std::string reason) {
  state_ = State::kIsRefused;
  return Refused{.reason = std::move(reason)};
}

CoordinatorHandshake::Step CoordinatorHandshake::handle(const Message& message) {
  const auto* hello = std::get_if<Hello>(&message);
  if (hello != nullptr && state_ == State::kAwaitsHello) return handle_hello(*hello);
  const auto* proof = std::get_if<Proof>(&message);
  if (proof != nullptr && state_ == State::kAwaitsProof) return handle_proof(*proof);
  return refuse(fmt::format("it sent \"{}\" before it was let in, where \"{}\" belongs", type_of(message),
                            state_ == State::kAwaitsProof ? "proof" : "hello"));
}

CoordinatorHandshake::Step CoordinatorHandshake::handle_hello(const Hello& hello) {
  hello_ = hello;
  hello_.node.address = remote_address_;
  if (const auto why = why_not_admitted(hello_, {.spec = spec_, .has_secret = !secret_.empty()}))
    return refuse(*why);
  state_ = secret_.empty() ? State::kIsAdmitted : State::kAwaitsProof;
  if (secret_.empty()) return Admitted{};
  return Challenge{nonce_, make_proof(secret_, Side::kCoordinator, encode(hello_), nonce_)};
}

CoordinatorHandshake::Step CoordinatorHandshake::handle_proof(const Proof& proof) {
  const std::string expected = make_proof(secret_, Side::kAgent, encode(hello_), nonce_);
  if (!is_same_proof(expected, proof.proof)) {
    return refuse(fmt::format("{} has another job secret than the coordinator, or repeats an old proof",
                              name_of(hello_.node)));
  }
  state_ = State::kIsAdmitted;
  return Admitted{};
}

}  // namespace ddprun::membership
