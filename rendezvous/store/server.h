#pragma once

#include "rendezvous/base/ids.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/name_lookup.h"
#include "rendezvous/base/result.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::store {

/// What a process that does nothing but serve connections keeps for itself: its console, its threads' bells,
/// and all that is opened for a moment.
inline constexpr std::size_t kServersOwnDescriptors = 32;

struct StoreServerOptions {
  /// Where the kernel chooses the port, `StoreServer::port()` tells it. A name is looked up, which blocks.
  ListenAt at;
  /// A bound (or listening) TCP socket inherited from the parent process; the server owns it from then on,
  /// and `at` is ignored.
  std::optional<int> inherited_fd;
  /// A connection that has not introduced itself after this long is closed; sooner, the oldest first, when
  /// there is no descriptor for the next one.
  std::chrono::milliseconds handshake_timeout{30000};
  /// Descriptors of this process that connections leave to what everything else may still open (at most half
  /// of RLIMIT_NOFILE), asked for before each is accepted: whoever reaches the port can hold any number of
  /// them. Only where one thread opens files, because the limit is lowered while connections are accepted.
  std::function<std::size_t()> reserved_descriptors;
};

/// PyTorch's TCPStore protocol on one TCP port: stock libtorch and Python clients are its clients.
///
/// Keys      live in a key space. A connection belongs to the key space that was current when it was made, so
///           no key of one generation is ever seen by the next.
/// Failures  a connection that breaks the protocol or a limit is closed with a logged reason; no other
///           connection notices. A client that does not read its replies is not read from either, so memory
///           stays bounded.
/// Threads   none of its own: everything happens on the io_context's one thread.
/// Lifetime  the io_context and the logger must outlive it. The destructor calls `close()`.
class StoreServer {
 public:
  /// Binds and listens; serving begins when the io_context runs.
  /// Errors   kUnavailable when the port is in use or the host has no usable address (the message names
  ///          them); kUsage when `inherited_fd` is not a stream socket.
  static Result<std::unique_ptr<StoreServer>> open(boost::asio::io_context& io,
                                                   const StoreServerOptions& options, Logger& logger);
  virtual ~StoreServer() = default;

  [[nodiscard]] virtual Port port() const = 0;

  /// Gives connections made from now on a fresh, empty key space. Connections that are open keep theirs;
  /// a key space is freed with its last connection.
  virtual void begin_generation() = 0;

  /// A connection that begins with `greeting`, whose first byte is not a store client's, is handed over once
  /// that is whole, with the bytes that came after it. Until then it is the server's, and has
  /// `handshake_timeout` like every other. What begins otherwise is closed as garbage.
  using PeerHandler = std::function<void(boost::asio::ip::tcp::socket, std::string bytes_after)>;
  virtual void set_peer_handler(std::string greeting, PeerHandler handler) = 0;

  /// Called when the process has no descriptor for another connection and no newcomer is left that could give
  /// way to it: closes one if it can, and says whether it has.
  virtual void set_make_room(std::function<bool()> make_room) = 0;

  /// Decides which store clients are let in, by their address; without one (the default) all are.
  using AddressFilter = std::function<bool(const boost::asio::ip::address&)>;
  virtual void set_address_filter(AddressFilter filter) = 0;

  [[nodiscard]] virtual std::size_t connection_count() const = 0;

  /// Stops listening and closes every connection. Nothing of this server is pending on the io_context
  /// afterwards except handlers that do nothing. May be called twice.
  virtual void close() = 0;
};

}  // namespace ddprun::store
