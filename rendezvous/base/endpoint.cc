#include "rendezvous/base/endpoint.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <system_error>

namespace ddprun {

std::string to_string(const Endpoint& endpoint) {
  const bool is_ipv6 = endpoint.host.find(':') != std::string::npos;
  const std::string host = is_ipv6 ? fmt::format("[{}]", endpoint.host) : endpoint.host;
  return endpoint.port ? fmt::format("{}:{}", host, *endpoint.port) : host;
}

Endpoint endpoint_of(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  Endpoint endpoint{std::string(without_brackets(text.substr(0, colon))), std::nullopt};
  if (colon == std::string_view::npos) return endpoint;
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  if (error == std::errc() && end == text.data() + text.size()) endpoint.port = Port(port);
  return endpoint;
}

std::string_view without_brackets(std::string_view host) {
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return is_bracketed ? host.substr(1, host.size() - 2) : host;
}

}  // namespace ddprun
