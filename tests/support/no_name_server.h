#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <resolv.h>

namespace ddprun::testing {

/// Makes the calling thread's host name look-ups fail at once, but for /etc/hosts.
///
/// libtorch's TCPStore client looks the name of 127.0.0.1 up for its log, at every connection, as an IPv6
/// address that /etc/hosts does not know: a name server that is slow or drops queries would be what is
/// tested.
inline void ask_no_name_server() {
  ::res_init();
  _res.nscount = 1;
  _res.nsaddr_list[0].sin_family = AF_INET;
  _res.nsaddr_list[0].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  _res.nsaddr_list[0].sin_port = htons(9);  // nobody is there: refused
  _res.retry = 1;
  _res.retrans = 1;
}

}  // namespace ddprun::testing
