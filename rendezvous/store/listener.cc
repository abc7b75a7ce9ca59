#include "rendezvous/store/listener.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace ddprun::store {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

constexpr int kKeepaliveIdleSeconds = 60;
constexpr int kKeepaliveIntervalSeconds = 10;
constexpr int kKeepaliveProbes = 6;

void set_option(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof(value));  // a socket without it still works
}

std::string printable(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST] = "?";
  ::getnameinfo(address, size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  return address->sa_family == AF_INET6 ? fmt::format("[{}]", host) : host;
}

struct Attempt {
  UniqueFd fd;
  int error = 0;
  bool is_bound = false;
};

// Binds and listens.
Attempt try_at(const addrinfo& address) {
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return {.error = errno};
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(fd.get(), address.ai_addr, address.ai_addrlen) != 0) return {.error = errno};
  if (::listen(fd.get(), SOMAXCONN) != 0) return {.error = errno, .is_bound = true};
  return {.fd = std::move(fd)};
}

// Of two sockets that were bound and begin to listen at the same moment Linux may refuse both: each is marked as
// listening before it looks for others. Where somebody listens in truth, the next bind() is refused.
Attempt open_at(const addrinfo& address) {
  constexpr int kAttempts = 100;
  Attempt attempt = try_at(address);
  for (int i = 1; i < kAttempts && attempt.is_bound && attempt.error == EADDRINUSE; ++i)
    attempt = try_at(address);
  return attempt;
}

Result<Listener> describe(UniqueFd fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return os_error("getsockname of the store's listening socket", errno);
  }
  Listener listener{.fd = std::move(fd), .is_ipv6 = address.ss_family == AF_INET6, .port = {}};
  const auto port = listener.is_ipv6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                     : reinterpret_cast<const sockaddr_in&>(address).sin_port;
  listener.port = Port(ntohs(port));
  return listener;
}

Result<Listener> listen_on_first(const HostAddresses& addresses, Port port, bool* is_in_use = nullptr) {
  std::string tried;
  bool is_taken = false;
  for (const std::string& text : addresses) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (::getaddrinfo(text.c_str(), to_string(port).c_str(), &hints, &found) != 0) continue;
    const AddressList address(found, &::freeaddrinfo);
    Attempt attempt = open_at(*address);
    if (attempt.fd) return describe(std::move(attempt.fd));
    is_taken = is_taken || attempt.error == EADDRINUSE;
    tried +=
        fmt::format("{}{}:{}: {}", tried.empty() ? "" : "; ",
                    printable(address->ai_addr, address->ai_addrlen), port, std::strerror(attempt.error));
  }
  if (is_in_use != nullptr) *is_in_use = is_taken;
  return Error(
      ErrorCode::kUnavailable,
      fmt::format("cannot listen on {}{}", tried,
                  is_taken ? "; end the program that holds the port, or choose another (0 takes any)" : ""));
}

Error not_adoptable(int fd, std::string_view why) {
  return Error(ErrorCode::kUsage,
               fmt::format("cannot serve on inherited descriptor {}: {}; pass a bound TCP socket", fd, why));
}

}  // namespace

Result<Listener> listen_on(const ListenAt& at) {
  if (!at.addresses.empty()) return listen_on_first(at.addresses, at.port);
  if (!at.host.empty()) {
    const Result<HostAddresses> found = look_up(at.host);
    if (!found) return found.error().with(fmt::format("cannot listen on {}:{}", at.host, at.port));
    return listen_on_first(*found, at.port);
  }
  // "::" takes IPv4 connections too; "0.0.0.0" is for machines without IPv6.
  bool is_in_use = false;
  Result<Listener> everywhere = listen_on_first({"::"}, at.port, &is_in_use);
  return everywhere || is_in_use ? std::move(everywhere) : listen_on_first({"0.0.0.0"}, at.port);
}

Result<Listener> adopt_listener(int fd) {
  int type = 0;
  socklen_t size = sizeof(type);
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0)
    return not_adoptable(fd, std::strerror(errno));
  int family = 0;
  size = sizeof(family);
  ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
  if (type != SOCK_STREAM || (family != AF_INET && family != AF_INET6))
    return not_adoptable(fd, "it is no TCP socket");
  if (::listen(fd, SOMAXCONN) != 0) return not_adoptable(fd, std::strerror(errno));
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  return describe(UniqueFd(fd));
}

UniqueFd accept_connection(int listening_fd) {
  UniqueFd fd(::accept4(listening_fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) return fd;
  set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveIdleSeconds);
  set_option(fd.get(), IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveIntervalSeconds);
  set_option(fd.get(), IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
  return fd;
}

}  // namespace ddprun::store
