#pragma once

#include "rendezvous/base/error.h"
#include "rendezvous/membership/messages.h"

#include <string>
#include <string_view>
#include <variant>

namespace ddprun::membership {

// How a connection of the agents' protocol begins, on both sides, for a member and for `ddprun drain`. Pure.
//
//   agent                 coordinator
//   hello            →
//                    ←    challenge          only with a secret
//   proof            →
//                    ←    welcome
//
// With a secret each side proves it by an HMAC over the whole transcript: the hello as it stands on the wire
// (so version, job, sizes, what the connection is for, the node's facts, the agent's nonce) and the
// coordinator's nonce, after a label that says which side speaks. So nothing of it can be changed or left out
// on the way, and a proof that was seen once fits no other connection, purpose or direction. Any message that
// is not the next one ends it.

/// The side that connects.
class AgentHandshake {
 public:
  /// `hello` with a fresh nonce; whether there is a secret is written into it.
  AgentHandshake(Hello hello, std::string secret);

  /// What is to be sent first.
  [[nodiscard]] std::string first_bytes() const;

  /// Proof: to be sent. Welcome: this side is in. Refused: by the coordinator. Error: the other side is not
  /// to be trusted, or no coordinator; its message follows a name: "has another job secret than this node;
  /// …". After the last three the handshake is over.
  using Step = std::variant<Proof, Welcome, Refused, Error>;
  Step handle(const Message& message);

  [[nodiscard]] bool is_in() const { return state_ == State::kIsIn; }

 private:
  enum class State { kAwaitsChallenge, kAwaitsWelcome, kIsIn, kIsOut };

  Step out(Error error);
  Step handle_challenge(const Challenge& challenge);

  std::string hello_frame_;
  std::string secret_;
  State state_;
};

/// The side that is connected to.
class CoordinatorHandshake {
 public:
  /// `nonce` is fresh, or empty without a secret. `spec` and `secret` outlive it.
  CoordinatorHandshake(const JobSpec& spec, const std::string& secret, std::string nonce,
                       std::string remote_address);

  struct Admitted {};
  /// Challenge: to be sent. Admitted: a welcome is to be sent. Refused: to be sent, and the connection
  /// closed. After the last two the handshake is over.
  using Step = std::variant<Challenge, Admitted, Refused>;
  Step handle(const Message& message);

  [[nodiscard]] bool is_admitted() const { return state_ == State::kIsAdmitted; }
  /// It was asked for its proof, and has not given it.
  [[nodiscard]] bool awaits_proof() const { return state_ == State::kAwaitsProof; }
  /// What the other side says of itself; proven once it is admitted.
  [[nodiscard]] const Hello& hello() const { return hello_; }

 private:
  enum class State { kAwaitsHello, kAwaitsProof, kIsAdmitted, kIsRefused };

  Step refuse(std::string reason);
  Step handle_hello(const Hello& hello);
  Step handle_proof(const Proof& proof);

  const JobSpec& spec_;
  const std::string& secret_;
  std::string nonce_;
  std::string remote_address_;
  Hello hello_;
  State state_ = State::kAwaitsHello;
};

}  // namespace ddprun::membership
