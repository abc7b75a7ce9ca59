#pragma once

#include "rendezvous/base/alarm.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/membership/messages.h"

#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace ddprun::membership {

/// Messages over one TCP connection, both ways.
///
/// Callbacks  `on_message` for each message; `on_closed` once, with how it ended, unless `close()` was called
///            first; what the other side said before it ended comes before that. Neither is called from
///            inside `start`, `send`, `close_after_sending` or `close`.
/// Limits     a peer that does not read is given up when 4 MiB wait for it.
/// Lifetime   shared: pending operations keep it alive until they end; `close()` ends them. After
///            `close_after_sending()` it may outlive its owner: what the owner gives it goes through the
///            owner's Gate, and does not hold this channel.
class Channel : public std::enable_shared_from_this<Channel> {
 public:
  using OnMessage = std::function<void(Message)>;
  using OnClosed = std::function<void(Loss, const std::string& why)>;

  /// `socket` is connected; `received` are bytes that were read from it already.
  static std::shared_ptr<Channel> make(boost::asio::ip::tcp::socket socket, std::string received);

  void start(OnMessage on_message, OnClosed on_closed);
  void send(const Message& message) { send_bytes(encode(message)); }
  void send_bytes(std::string bytes);
  /// Closes when what was sent before has been taken and the other side has closed, too; or when it takes
  /// nothing for `patience`, has not taken all after thirty seconds, or then does not close for one. Taken is
  /// what the other side's kernel has. What still comes is read, and no longer has to be messages.
  void close_after_sending(Duration patience = std::chrono::seconds(1));
  /// Called once when that is over, from the loop; not where `close()` was called first.
  void set_on_farewell_over(std::function<void()> on_over) { on_farewell_over_ = std::move(on_over); }
  [[nodiscard]] bool is_open() const { return gate_.is_open(); }
  /// False: what is sent goes nowhere.
  [[nodiscard]] bool can_send() const { return gate_.is_open() && !closes_after_sending_ && !write_error_; }
  /// Takes what has come and waits to be read, as messages, from inside this call; then closes.
  void read_out_and_close();
  /// The other side's kernel goes on taking what ours has.
  void close();
  /// It does not: of what is untaken nothing arrives but what is on the wire.
  void close_and_discard();

  /// What was sent and is not with the kernel yet.
  [[nodiscard]] std::size_t backlog_bytes() const { return bytes_to_send_; }
  /// What was sent and the other side's kernel has not taken, or had not when this was closed.
  [[nodiscard]] std::size_t untaken_bytes() { return bytes_to_send_ + bytes_in_kernel(); }
  /// All that `send` was given, also what could not be sent any more.
  [[nodiscard]] std::uint64_t given_bytes() const { return given_bytes_; }
  /// How much of that the other side's kernel has taken, or had when this was closed: perhaps more by what it
  /// has not told yet.
  [[nodiscard]] std::uint64_t taken_bytes() { return written_bytes_ - bytes_in_kernel(); }
  /// Called each time that has become nothing; never from inside `send`.
  void set_on_empty(std::function<void()> on_empty) { on_empty_ = std::move(on_empty); }

  [[nodiscard]] boost::asio::ip::address remote_address() const { return remote_; }

 private:
  Channel(boost::asio::ip::tcp::socket socket, std::string received);
  void read_when_ready();
  bool handle_waiting(std::size_t at_most);
  bool read_frames();
  bool not_understood(const Error& error);
  void write_what_fits();
  void wrote(boost::system::error_code error);
  [[nodiscard]] std::size_t bytes_in_kernel();
  void send_no_more(boost::system::error_code error);
  void ended(boost::system::error_code error);
  void end(Loss loss, const std::string& why);
  void let_go();
  struct Farewell {
    std::size_t untaken = 0;
    TimePoint moved_at{};  ///< when the other side last took something
    TimePoint last{};
    Duration patience{};
  };
  void wait_for_farewell(Farewell seen);
  void send_end();

  boost::asio::ip::tcp::socket socket_;
  boost::asio::ip::address remote_;
  std::string received_;
  std::deque<std::string> to_send_;
  std::size_t written_of_first_ = 0;
  std::size_t bytes_to_send_ = 0;
  std::uint64_t given_bytes_ = 0;
  std::uint64_t written_bytes_ = 0;  ///< to the kernel
  bool is_writing_ = false;
  boost::system::error_code write_error_;  ///< nothing is sent any more; how it ends is read
  bool closes_after_sending_ = false;
  std::size_t in_kernel_at_end_ = 0;
  Alarm farewell_;
  OnMessage on_message_;
  OnClosed on_closed_;
  std::function<void()> on_empty_;
  std::function<void()> on_farewell_over_;
  Gate gate_;
};

/// An IPv4 address that came as an IPv6 one, as IPv4.
boost::asio::ip::address plain_address(const boost::asio::ip::address& address);

}  // namespace ddprun::membership
