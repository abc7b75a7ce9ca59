#pragma once

#include "rendezvous/base/ids.h"
#include "rendezvous/base/name_lookup.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <string>

namespace ddprun::store {

/// A listening TCP socket, non-blocking and close-on-exec, and where it listens.
struct Listener {
  UniqueFd fd;
  bool is_ipv6 = false;
  Port port;
};

/// Listens on `host` (a name or an address; empty: every address, IPv6 and IPv4 on one socket where the
/// machine has both). Port 0 lets the kernel choose.
/// Errors  kUnavailable, naming every address that was tried and why it failed.
/// Blocks  as look_up() does, where the host is a name.
Result<Listener> listen_on(const std::string& host, Port port);

/// The same for addresses that have been looked up: on the first that can be had; none: every address.
Result<Listener> listen_on(const HostAddresses& addresses, Port port);

/// Takes over a TCP socket that this process inherited; begins to listen on it if its maker has not.
/// Errors   kUsage when `fd` is not open or no TCP socket. The descriptor is then left as it was.
Result<Listener> adopt_listener(int fd);

/// The next connection that waits at a listening socket: close-on-exec, non-blocking, without Nagle's delay,
/// kept alive by probes so that a peer whose machine vanished is noticed. `errno` is EAGAIN when there is
/// none.
UniqueFd accept_connection(int listening_fd);

}  // namespace ddprun::store
