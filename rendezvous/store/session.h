#pragma once

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/store/poller.h"
#include "rendezvous/store/store_core.h"
#include "rendezvous/store/wire.h"

#include <boost/asio/ip/tcp.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ddprun::store {

class Session;

/// What a session needs of the server it belongs to.
class SessionHost {
 public:
  virtual Poller& poller() = 0;
  /// A buffer that is free while one event is handled; shared by all sessions, so that an idle one costs
  /// none.
  virtual std::span<char> scratch() = 0;
  /// Asks for `Session::settle()` when the events at hand have been handled.
  virtual void settle_later(Session& session) = 0;
  /// True if a store client from this address may come in.
  virtual bool admits(const boost::asio::ip::address& address) = 0;
  /// The session has turned out to be a store client's.
  virtual void introduced(Session& session) = 0;
  /// What connections of the other protocol on this port begin with; empty: there is none.
  [[nodiscard]] virtual std::string_view peer_greeting() const = 0;
  /// Hands over a connection that began with `peer_greeting()`, and what came after that; false if the kernel
  /// refuses.
  virtual bool hand_over(UniqueFd& connection, std::string_view bytes_after) = 0;
  /// The session is closed and may be destroyed once the events at hand have been handled. `reason` is empty
  /// when the client left in order.
  virtual void closed(Session& session, std::string_view reason) = 0;

 protected:
  ~SessionHost() = default;
};

/// One connection of the store: reads requests, has the core serve them, writes the replies.
///
/// Order   while a WAIT or BARRIER of this client is unanswered only CANCEL_WAIT is served; what else was
///         sent waits.
/// Memory  at most kMaxUnsent bytes of replies and kMaxUnserved bytes of requests are held (or one request or
///         reply, if that is larger); beyond that the client is not read from.
class Session final : public StoreClient, public Poller::Handler {
 public:
  Session(SessionHost& host, UniqueFd connection, std::shared_ptr<StoreCore> core, const Limits& limits);
  ~Session() = default;

  /// Begins to serve; false with `errno` when the kernel refuses.
  bool start();

  void on_ready(std::uint32_t events) override;
  void send(std::string_view bytes) override;

  /// Writes what there is to write and goes on with requests that were held back.
  void settle();

  /// Ends the connection. `reason` is for the log, empty when there is nothing to say.
  void close(std::string_view reason);

  /// "127.0.0.1:40312"
  [[nodiscard]] std::string peer() const;

 private:
  static constexpr std::size_t kMaxUnsent = 1024 * 1024;
  static constexpr std::size_t kMaxUnserved = 64 * 1024;

  void read();
  void handle(std::string_view bytes);
  std::size_t serve(std::string_view bytes);
  void serve_held_back();
  bool introduce();
  bool meet_peer();
  void write();
  void want_settling();
  void watch();
  [[nodiscard]] std::size_t unsent() const { return output_.size() - sent_; }
  [[nodiscard]] bool is_congested() const { return unsent() > kMaxUnsent; }

  SessionHost& host_;
  UniqueFd connection_;
  std::shared_ptr<StoreCore> core_;
  RequestParser parser_;
  boost::asio::ip::tcp::endpoint peer_;
  std::string unserved_;  ///< bytes read and not yet served; begins with a request
  std::string output_;
  std::size_t sent_ = 0;          ///< bytes of output_ that are gone already
  std::uint32_t interest_ = 0;    ///< what the poller watches for
  bool is_store_client_ = false;  ///< it began like one
  bool is_introduced_ = false;    ///< its first request was served
  bool is_held_back_ = false;     ///< unserved_ may hold whole requests
  bool is_blocked_ = false;       ///< the kernel takes no more output now
  bool wants_settling_ = false;
  bool is_closed_ = false;
};

}  // namespace ddprun::store
