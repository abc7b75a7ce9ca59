#pragma once

#include "rendezvous/base/ids.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::membership {

/// One pass over all addresses of a host, in turn, each with a time limit of its own: a dead network card
/// costs little.
///
/// Lifetime  shared: pending operations keep it alive until they end; `cancel()` ends them (but a name lookup
/// that is
///           under way on asio's resolver thread is waited for by the io_context).
class Connector : public std::enable_shared_from_this<Connector> {
 public:
  /// The socket (close-on-exec), or none and what was tried: "[10.0.0.1] connection refused; [fd00::1] timed
  /// out".
  using OnDone = std::function<void(std::optional<boost::asio::ip::tcp::socket>, const std::string& tried)>;

  Connector(boost::asio::io_context& io, std::string host, Port port, std::vector<std::string> also_try);

  /// Calls `on_done` once, never from inside itself, and not after `cancel()`.
  void start(OnDone on_done);
  void cancel();

 private:
  using Endpoint = boost::asio::ip::tcp::endpoint;
  boost::asio::awaitable<void> run();
  boost::asio::awaitable<void> collect_addresses();
  boost::asio::awaitable<bool> connect(const Endpoint& endpoint);
  void add(const boost::asio::ip::address& address);

  boost::asio::io_context& io_;
  std::string host_;
  Port port_;
  std::vector<std::string> also_try_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::steady_timer timer_;
  std::optional<boost::asio::ip::tcp::socket> socket_;
  std::vector<Endpoint> endpoints_;
  std::string tried_;
  int attempt_ = 0;
  bool is_cancelled_ = false;
  OnDone on_done_;
};

}  // namespace ddprun::membership
