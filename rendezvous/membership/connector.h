#pragma once

#include "rendezvous/base/alarm.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/ids.h"
#include "rendezvous/base/name_lookup.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::membership {

/// One pass over all addresses of a host, in turn, each with a time limit of its own: a dead network card
/// costs little.
///
/// Lifetime  destroyed at any time, also from within `on_done`, which is then not called any more.
class Connector {
 public:
  /// The socket (close-on-exec), or none and what was tried: "[10.0.0.1] connection refused; [fd00::1] timed
  /// out".
  using OnDone = std::function<void(std::optional<boost::asio::ip::tcp::socket>, const std::string& tried)>;

  Connector(boost::asio::io_context& io, std::string host, Port port, HostAddresses also_try);

  /// Calls `on_done` once, never from inside itself.
  void start(OnDone on_done);

 private:
  using Endpoint = boost::asio::ip::tcp::endpoint;
  void resolve();
  void add_all(const HostAddresses& addresses);
  void add(const boost::asio::ip::address& address);
  void try_next();
  void failed(const Endpoint& endpoint, boost::system::error_code error);

  boost::asio::io_context& io_;
  std::string host_;
  Port port_;
  HostAddresses also_try_;
  NameLookup lookup_;
  Alarm limit_;  ///< of the address that is being tried
  boost::asio::ip::tcp::socket socket_;
  std::vector<Endpoint> endpoints_;
  std::size_t next_ = 0;
  std::string tried_;
  OnDone on_done_;
  Gate gate_;
};

}  // namespace ddprun::membership
