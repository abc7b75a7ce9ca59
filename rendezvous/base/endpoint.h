#pragma once

#include "rendezvous/base/ids.h"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// HOST:PORT. The host stands without the brackets of an IPv6 address.
struct Endpoint {
  std::string host;
  std::optional<Port> port;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// As it is written: "head:29400", "[::1]:29400", "head".
std::string to_string(const Endpoint& endpoint);

/// Of a text that to_string() has written; what is no port is none. Pure.
Endpoint endpoint_of(std::string_view text);

/// An address without the brackets of IPv6.
std::string_view without_brackets(std::string_view host);

}  // namespace ddprun
