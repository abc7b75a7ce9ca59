#include "launcher/why/look/socket_diag.h"

#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/unique_fd.h"

#include <arpa/inet.h>
#include <fmt/format.h>
// The kernel's own tcp_info, which has the counters of bytes; glibc's, of <netinet/tcp.h>, ends before them.
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace ddprun::launcher::why {
namespace {

constexpr unsigned kEstablished = 1;  // TCP_ESTABLISHED of the kernel

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

bool ask(int socket, int family) {
  Request request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.sdiag_family = static_cast<std::uint8_t>(family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_ext = 1U << (INET_DIAG_INFO - 1);
  request.body.idiag_states = 1U << kEstablished;
  return ::send(socket, &request, sizeof request, 0) == static_cast<ssize_t>(sizeof request);
}

std::string address_text(int family, const __be32* address, __be16 port) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(family, address, text.data(), text.size());
  // One end of a connection of IPv4 may be a socket of IPv6.
  std::string_view host = text.data();
  if (host.starts_with("::ffff:") && host.find('.') != std::string_view::npos) host.remove_prefix(7);
  return to_string(Endpoint{std::string(host), Port(ntohs(port))});
}

/// Of one connection: its message, and behind it what was asked for.
void parse_connection(const char* message, std::size_t size, std::map<std::string, Received>& found) {
  inet_diag_msg head{};
  if (size < sizeof head) return;
  std::memcpy(&head, message, sizeof head);
  for (std::size_t at = NLMSG_ALIGN(sizeof head); at + sizeof(rtattr) <= size;) {
    rtattr attribute{};
    std::memcpy(&attribute, message + at, sizeof attribute);
    if (attribute.rta_len < sizeof attribute || at + attribute.rta_len > size) return;
    if (attribute.rta_type == INET_DIAG_INFO) {
      tcp_info info{};
      const std::size_t length = attribute.rta_len - RTA_LENGTH(0);
      // An older kernel's ends before the counters.
      if (length < offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received) return;
      std::memcpy(&info, message + at + RTA_LENGTH(0), std::min(length, sizeof info));
      found[std::to_string(head.idiag_inode)] = {
          .local = address_text(head.idiag_family, head.id.idiag_src, head.id.idiag_sport),
          .remote = address_text(head.idiag_family, head.id.idiag_dst, head.id.idiag_dport),
          .bytes = info.tcpi_bytes_received,
          .acknowledged = info.tcpi_bytes_acked,
          .silent_s = info.tcpi_last_data_recv * 1e-3};
    }
    at += RTA_ALIGN(attribute.rta_len);
  }
}

/// False: it was the last of the answer, or there is none.
bool parse_messages(const char* bytes, std::size_t size, std::map<std::string, Received>& found) {
  for (std::size_t at = 0; at + sizeof(nlmsghdr) <= size;) {
    nlmsghdr header{};
    std::memcpy(&header, bytes + at, sizeof header);
    if (header.nlmsg_len < sizeof header || at + header.nlmsg_len > size) return false;
    if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return false;  // NLMSG_DONE, NLMSG_ERROR
    parse_connection(bytes + at + NLMSG_HDRLEN, header.nlmsg_len - NLMSG_HDRLEN, found);
    at += NLMSG_ALIGN(header.nlmsg_len);
  }
  return true;
}

}  // namespace

std::map<std::string, Received> tcp_received() {
  std::map<std::string, Received> found;
  const UniqueFd socket(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  const timeval patience{1, 0};
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0)
    return found;
  for (const int family : {AF_INET, AF_INET6}) {
    if (!ask(socket.get(), family)) return found;
    std::array<char, 32768> buffer{};
    for (;;) {
      const ssize_t count = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
      if (count <= 0) return found;
      if (!parse_messages(buffer.data(), static_cast<std::size_t>(count), found)) break;
    }
  }
  return found;
}

}  // namespace ddprun::launcher::why
