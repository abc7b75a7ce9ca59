#pragma once

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/membership/messages.h"

#include <cstddef>
#include <string>

namespace ddprun::testing {

/// A TCP connection on this machine that says exactly what it is told to. Waits at most three seconds for an
/// answer.
class Wire {
 public:
  /// Connects to 127.0.0.1, from an address of choice.
  explicit Wire(const std::string& port, const std::string& source = "127.0.0.1");
  explicit Wire(UniqueFd socket);

  void send(const std::string& bytes) const;
  /// Fewer than asked for: the other side has closed, or said nothing in time.
  [[nodiscard]] std::string receive(std::size_t size) const;
  /// The next frame of the agents' protocol.
  [[nodiscard]] membership::Message receive_message() const;

 private:
  UniqueFd socket_;
};

/// A port of 127.0.0.1 where nobody says anything unasked.
class ListeningPort {
 public:
  ListeningPort();
  [[nodiscard]] std::string port() const;
  [[nodiscard]] Wire accept() const;

 private:
  UniqueFd socket_;
};

}  // namespace ddprun::testing
