#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace ddprun::launcher::why {

/// What has come over a TCP connection.
struct Received {
  std::string local;  ///< "127.0.0.1:4711"
  std::string remote;
  std::uint64_t bytes = 0;
  std::uint64_t acknowledged = 0;  ///< bytes that have gone the other way, and arrived
  double silent_s = 0;             ///< since the last of `bytes`
};

/// Of the established connections of this process's own network namespace, by the inode of their sockets. Empty: the
/// kernel does not tell (no inet_diag). Source: sock_diag(7).
std::map<std::string, Received> tcp_received();

}  // namespace ddprun::launcher::why
