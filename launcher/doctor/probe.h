#pragma once

#include "launcher/doctor/talk.h"
#include "rendezvous/base/alarm.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/connector.h"
#include "rendezvous/store/server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::launcher {

/// Where other hosts probe this one: a port of the kernel's choice, as a worker's of gloo or NCCL. It answers who
/// knows its token, sixteen at a time, each for ten seconds at most, and closes what anybody else opens.
///
/// Lifetime  the io_context and the logger outlive it. The destructor calls `close()`.
class ProbeTarget {
 public:
  /// Errors  as of StoreServer.
  static Result<std::unique_ptr<ProbeTarget>> open(boost::asio::io_context& io, const ListenAt& at,
                                                   Logger& logger);
  ~ProbeTarget() { close(); }
  ProbeTarget(const ProbeTarget&) = delete;
  ProbeTarget& operator=(const ProbeTarget&) = delete;

  [[nodiscard]] doctor_talk::ProbePlace place() const { return {server_->port(), token_}; }
  void close();

 private:
  class Guest;
  ProbeTarget(std::unique_ptr<store::StoreServer> server, std::string token);
  void take(boost::asio::ip::tcp::socket socket, std::string bytes_after);

  std::string token_;
  std::unique_ptr<store::StoreServer> server_;
  std::list<std::shared_ptr<Guest>> guests_;  ///< the oldest first; perhaps closed
};

/// One host's try to reach another: connects, has some bytes come back one by one, sends a stream.
///
/// Lifetime  destroyed at any time, also from within `on_done`, which is then not called any more.
class ProbeCall {
 public:
  using OnDone = std::function<void(const doctor_talk::Probed&)>;

  ProbeCall(boost::asio::io_context& io, std::string address, doctor_talk::ProbeOne asked);
  /// Calls `on_done` once, within a second and a half for the connection and five for the rest.
  void start(OnDone on_done);

 private:
  void greet(boost::asio::ip::tcp::socket socket);
  void send_echo();
  void await(boost::asio::ip::tcp::socket::wait_type what, void (ProbeCall::*then)());
  void read_echo();
  void begin_stream();
  void send_stream();
  void end_stream();
  void read_count();
  void fail(const std::string& why);
  void finish();

  doctor_talk::ProbeOne asked_;
  membership::Connector connector_;
  boost::asio::ip::tcp::socket socket_;
  Alarm limit_;
  int echoes_ = 0;
  TimePoint sent_at_{};
  TimePoint stream_began_{};
  std::uint64_t streamed_ = 0;
  std::array<unsigned char, 8> count_{};
  std::size_t counted_ = 0;
  doctor_talk::Probed result_;
  OnDone on_done_;
  Gate gate_;
};

}  // namespace ddprun::launcher
