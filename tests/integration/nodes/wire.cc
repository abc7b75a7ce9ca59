#include "tests/integration/nodes/wire.h"

#include "tests/support/catch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace ddprun::testing {
namespace {

constexpr timeval kPatience{3, 0};

sockaddr_in address_of(const std::string& host, std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  REQUIRE(::inet_pton(AF_INET, host.c_str(), &result.sin_addr) == 1);
  return result;
}

UniqueFd bound_socket(const std::string& host) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in from = address_of(host, 0);
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0);
  return socket;
}

}  // namespace

Wire::Wire(const std::string& port, const std::string& source) : Wire(bound_socket(source)) {
  const sockaddr_in to = address_of("127.0.0.1", static_cast<std::uint16_t>(std::stoi(port)));
  REQUIRE(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
}

Wire::Wire(UniqueFd socket) : socket_(std::move(socket)) {
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
}

void Wire::send(const std::string& bytes) const {
  const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  REQUIRE(sent == static_cast<ssize_t>(bytes.size()));
}

std::string Wire::receive(std::size_t size) const {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::recv(socket_.get(), bytes.data() + done, size - done, 0);
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

membership::Message Wire::receive_message() const {
  const std::string header = receive(membership::kFrameHeaderBytes);
  REQUIRE(header.size() == membership::kFrameHeaderBytes);
  unsigned char raw[membership::kFrameHeaderBytes];
  std::copy(header.begin(), header.end(), raw);
  return membership::parse_message(receive(membership::parse_frame_length(raw).value())).value();
}

ListeningPort::ListeningPort() : socket_(bound_socket("127.0.0.1")) {
  REQUIRE(::listen(socket_.get(), 8) == 0);
}

std::string ListeningPort::port() const {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  REQUIRE(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return std::to_string(ntohs(address.sin_port));
}

Wire ListeningPort::accept() const {
  UniqueFd accepted(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(accepted);
  return Wire(std::move(accepted));
}

}  // namespace ddprun::testing
