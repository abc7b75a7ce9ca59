#pragma once

#include "rendezvous/base/result.h"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

/// Addresses of a host as numbers, in the order in which they are to be tried.
using HostAddresses = std::vector<std::string>;

/// The addresses of a name; an address is its own only one.
///
/// Blocks   for as long as the name servers are silent: 10 s usually, half a minute in a pod of Kubernetes.
/// So it is
///          never called on a loop, nor where signals wait for one.
/// Errors   kUnavailable: "the name node-a cannot be resolved (name or service not known)".
Result<HostAddresses> look_up(const std::string& host);

/// look_up() for a loop: on a thread of its own, which is left behind when nobody wants the answer any more.
///
/// Threads  methods are for the loop's thread. The other one has every signal blocked, knows nothing but the
/// name, and
///          ends with its look-up, or with the process. A process that the loop forks meanwhile (guard.h)
///          must look up nothing and open no library.
/// Lifetime destroyed at any time, also from within `on_done`; then that is not called any more, and nothing
/// keeps the
///          io_context.
class NameLookup {
 public:
  using OnDone = std::function<void(const Result<HostAddresses>&)>;

  explicit NameLookup(boost::asio::io_context& io) : io_(io) {}
  ~NameLookup();
  NameLookup(const NameLookup&) = delete;
  NameLookup& operator=(const NameLookup&) = delete;

  /// Calls `on_done` once, never from inside itself. One at a time.
  void start(const std::string& host, OnDone on_done);

 private:
  struct Door;
  boost::asio::io_context& io_;
  std::shared_ptr<Door> door_;
};

}  // namespace ddprun
