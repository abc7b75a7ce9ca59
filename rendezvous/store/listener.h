#pragma once

#include "rendezvous/base/ids.h"
#include "rendezvous/base/name_lookup.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace ddprun::store {

/// A listening TCP socket, non-blocking and close-on-exec, and where it listens.
struct Listener {
  UniqueFd fd;
  bool is_ipv6 = false;
  Port port;
};

/// Listens there; on every address with one socket where the machine has both IPv6 and IPv4.
/// Errors  kUnavailable, naming every address that was tried and why it failed.
/// Blocks  as look_up() does, where the host is a name that has not been looked up.
Result<Listener> listen_on(const ListenAt& at);

/// Takes over a TCP socket that this process inherited; begins to listen on it if its maker has not.
/// Errors   kUsage when `fd` is not open or no TCP socket. The descriptor is then left as it was.
Result<Listener> adopt_listener(int fd);

/// The next connection that waits at a listening socket: close-on-exec, non-blocking, without Nagle's delay,
/// kept alive by probes so that a peer whose machine vanished is noticed. `errno` is EAGAIN when there is
/// none.
UniqueFd accept_connection(int listening_fd);

}  // namespace ddprun::store
