#pragma once

#include "rendezvous/base/ids.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/store/wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ddprun::testing {

/// A blocking TCP connection to 127.0.0.1 that says exactly what it is told to. Reading gives up after ten
/// seconds.
class RawStoreClient {
 public:
  explicit RawStoreClient(Port port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port.value());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error("cannot connect");
    }
  }

  /// A client that has introduced itself.
  static RawStoreClient introduced(Port port) {
    RawStoreClient client(port);
    client.say({.opcode = store::Opcode::kValidate, .nonce = store::kValidateMagic});
    return client;
  }

  /// False when the server has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }
  bool say(const store::Request& request) { return send(store::encode(request)); }

  /// The next `size` bytes, or fewer if the server closes or stays silent.
  std::string receive(std::size_t size) {
    std::string bytes(size, '\0');
    const ssize_t count = ::recv(fd_.get(), bytes.data(), size, MSG_WAITALL);
    bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return bytes;
  }

  /// True when the server closes the connection without another byte.
  bool is_closed_by_server() {
    char byte = 0;
    const ssize_t count = ::recv(fd_.get(), &byte, 1, 0);
    return count == 0 || (count < 0 && errno == ECONNRESET);
  }

  /// Sends a PING and waits for its echo: whatever was sent before has been served then.
  bool ping(std::uint32_t nonce = 7) {
    std::string echo;
    store::append_u32(echo, nonce);
    return say({.opcode = store::Opcode::kPing, .nonce = nonce}) && receive(echo.size()) == echo;
  }

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

}  // namespace ddprun::testing
