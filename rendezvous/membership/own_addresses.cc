#include "rendezvous/membership/own_addresses.h"

#include "rendezvous/base/unique_fd.h"

#include <boost/asio/ip/address.hpp>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace ddprun::membership {
namespace {

bool is_same(const sockaddr* a, const sockaddr* b) {
  if (a == nullptr || b == nullptr || a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  return a->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

bool is_of_an_interface(const sockaddr* address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, ::freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (is_same(each->ifa_addr, address)) return true;
  }
  return false;
}

// A route of type "local" makes more addresses ours than the interfaces have: to such a one the kernel sends
// from that very address. (That it can be bound says nothing: net.ipv4.ip_nonlocal_bind allows any.) No
// packet is sent.
bool is_routed_to_us(const addrinfo& address) {
  const UniqueFd fd(::socket(address.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage to{};
  std::memcpy(&to, address.ai_addr, address.ai_addrlen);
  reinterpret_cast<sockaddr_in*>(&to)->sin_port = htons(9);  // at the same place in sockaddr_in6
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), address.ai_addrlen) != 0)
    return false;
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  return ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&from), &size) == 0 &&
         is_same(reinterpret_cast<const sockaddr*>(&from), address.ai_addr);
}

}  // namespace

bool is_loopback(const std::string& host) {
  boost::system::error_code not_numeric;
  const auto address = boost::asio::ip::make_address(host, not_numeric);
  return host == "localhost" || (!not_numeric && address.is_loopback());
}

bool is_reached_by_others(const ListenAt& at) {
  return !is_loopback(at.host) &&
         (at.addresses.empty() || !std::all_of(at.addresses.begin(), at.addresses.end(), is_loopback));
}

bool is_this_machine(const HostAddresses& addresses) {
  for (const std::string& address : addresses) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST;
    addrinfo* found = nullptr;
    if (::getaddrinfo(address.c_str(), nullptr, &hints, &found) != 0) continue;
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, ::freeaddrinfo);
    if (is_of_an_interface(found->ai_addr) || is_routed_to_us(*found)) return true;
  }
  return false;
}

}  // namespace ddprun::membership
