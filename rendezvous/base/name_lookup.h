#pragma once

#include "rendezvous/base/beside_loop.h"
#include "rendezvous/base/ids.h"
#include "rendezvous/base/result.h"

#include <boost/asio/io_context.hpp>

#include <string>
#include <vector>

namespace ddprun {

/// Addresses of a host as numbers, in the order in which they are to be tried.
using HostAddresses = std::vector<std::string>;

/// Where to listen, and where others then find it.
struct ListenAt {
  std::string host{};  ///< a name or an address; empty: every address, IPv6 and IPv4
  HostAddresses
      addresses{};  ///< the host's, where they have been looked up; the first that can be had is taken
  Port port{};      ///< 0: the kernel's choice
};

/// The addresses of a name; an address is its own only one.
///
/// Blocks   for as long as the name servers are silent: 10 s usually, half a minute in a pod of Kubernetes.
///          So it is never called on a loop, nor where signals wait for one.
/// Errors   kUnavailable: "the name node-a cannot be resolved (name or service not known)".
Result<HostAddresses> look_up(const std::string& host);

/// look_up() for a loop, beside it. A process that the loop forks meanwhile (guard.h) must look up nothing and
/// open no library.
class NameLookup {
 public:
  using OnDone = BesideLoop<Result<HostAddresses>>::OnDone;

  explicit NameLookup(boost::asio::io_context& io) : lookup_(io) {}

  /// Calls `on_done` once, never from inside itself, and not any more once this is destroyed. One at a time.
  void start(const std::string& host, OnDone on_done);

 private:
  BesideLoop<Result<HostAddresses>> lookup_;
};

}  // namespace ddprun
