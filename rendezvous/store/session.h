#pragma once

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
  virtual ~SessionHost() = default;
  /// A buffer that is free for the duration of one handler; shared by all sessions, so that an idle one costs
  /// none.
  virtual std::span<char> scratch() = 0;
  /// Asks for `flush()` of a session once the request at hand is served.
  virtual void flush_later(std::shared_ptr<Session> session) = 0;
  /// Flushes all sessions that asked.
  virtual void flush_all() = 0;
  /// True if a store client from this address may come in.
  virtual bool admits(const boost::asio::ip::address& address) = 0;
  /// Takes over a connection that does not speak the store's protocol; false if nobody wants it.
  virtual bool take_over(boost::asio::ip::tcp::socket& socket, std::string_view first_bytes) = 0;
  /// The session is closed; `reason` is empty when the client left in order.
  virtual void closed(Session& session, std::string_view reason) = 0;
};

/// One connection of the store: reads requests, has the core serve them, writes the replies.
///
/// Order    while a WAIT or BARRIER of this client is unanswered only CANCEL_WAIT is served; what else was
/// sent waits. Memory   at most kMaxUnsent bytes of replies and kMaxUnserved bytes of requests are held (or
/// one request or reply,
///          if that is larger); beyond that the client is not read from.
/// Owner    the server's table and the handlers that are under way; `close()` ends both.
class Session final : public StoreClient, public std::enable_shared_from_this<Session> {
 public:
  Session(SessionHost& host, boost::asio::ip::tcp::socket socket, std::shared_ptr<StoreCore> core,
          const Limits& limits);

  void start();
  void send(std::string_view bytes) override;
  void flush();

  /// Ends the connection. `reason` is logged unless it is empty.
  void close(std::string_view reason);

  [[nodiscard]] bool is_introduced() const { return is_introduced_; }
  /// "127.0.0.1:40312"
  [[nodiscard]] std::string peer() const;

 private:
  static constexpr std::size_t kMaxUnsent = 1024 * 1024;
  static constexpr std::size_t kMaxUnserved = 64 * 1024;

  void await_input();
  void on_input();
  void take(std::string_view bytes);
  std::size_t serve(std::string_view bytes);
  void serve_held_back();
  bool introduce(std::string_view bytes);
  void await_output();
  [[nodiscard]] bool is_congested() const { return unsent_.size() - sent_ > kMaxUnsent; }

  SessionHost& host_;
  boost::asio::ip::tcp::socket socket_;
  std::shared_ptr<StoreCore> core_;
  RequestParser parser_;
  boost::asio::ip::tcp::endpoint peer_;
  std::string unserved_;  ///< bytes read and not yet served; begins with a request
  std::string unsent_;
  std::size_t sent_ = 0;  ///< bytes of unsent_ that are gone already
  bool is_introduced_ = false;
  bool is_held_back_ = false;  ///< unserved_ may hold whole requests
  bool is_reading_ = false;
  bool is_writing_ = false;
  bool wants_flush_ = false;
  bool is_closed_ = false;
};

}  // namespace ddprun::store
