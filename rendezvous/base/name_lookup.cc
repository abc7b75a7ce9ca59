#include "rendezvous/base/name_lookup.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

Error unresolved(const std::string& host, std::string why) {
  if (!why.empty()) why.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(why.front())));
  return {ErrorCode::kUnavailable, fmt::format("the name {} cannot be resolved ({})", host, why)};
}

}  // namespace

Result<HostAddresses> look_up(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int problem = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (problem == EAI_SYSTEM) return unresolved(host, std::strerror(errno));
  if (problem != 0) return unresolved(host, ::gai_strerror(problem));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(list, &::freeaddrinfo);
  HostAddresses addresses;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(each->ai_addr, each->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) != 0)
      continue;
    if (std::find(addresses.begin(), addresses.end(), text.data()) == addresses.end())
      addresses.emplace_back(text.data());
  }
  return addresses;
}

void NameLookup::start(const std::string& host, OnDone on_done) {
  lookup_.start([host] { return look_up(host); },
                [&host](int error) -> Result<HostAddresses> {
                  return unresolved(host, fmt::format("no thread can be started: {}", std::strerror(error)));
                },
                std::move(on_done));
}

}  // namespace ddprun
