#include "rendezvous/membership/channel.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun::membership {
namespace {

constexpr std::size_t kReadBytes = 4096;
constexpr std::size_t kMostAtOnce = 256 * 1024;  // of one that never stops; the others want to be heard, too
constexpr auto kLongestFarewell = std::chrono::seconds(30);
constexpr auto kLinger = std::chrono::seconds(1);
constexpr std::size_t kMaxBacklogBytes = 4 * 1024 * 1024;

// "Broken pipe" is said only after the other side's end was received in order; a reset in its place says that
// the connection broke on the way.
Loss loss_of(boost::system::error_code error) {
  const bool ended_in_order = error == boost::asio::error::eof || error == boost::asio::error::broken_pipe;
  return ended_in_order ? Loss::kClosed : Loss::kReset;
}

}  // namespace

boost::asio::ip::address plain_address(const boost::asio::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6());
}

std::shared_ptr<Channel> Channel::make(boost::asio::ip::tcp::socket socket, std::string received) {
  return std::shared_ptr<Channel>(new Channel(std::move(socket), std::move(received)));
}

Channel::Channel(boost::asio::ip::tcp::socket socket, std::string received)
    : socket_(std::move(socket)), received_(std::move(received)), farewell_(socket_.get_executor()) {
  boost::system::error_code ignored;
  remote_ = plain_address(socket_.remote_endpoint(ignored).address());
  socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
}

void Channel::start(OnMessage on_message, OnClosed on_closed) {
  on_message_ = std::move(on_message);
  on_closed_ = std::move(on_closed);
  boost::asio::post(socket_.get_executor(), gate_.pass([self = shared_from_this()] {
    if (self->handle_waiting(kMostAtOnce)) self->read_when_ready();
  }));
}

void Channel::read_when_ready() {
  socket_.async_wait(boost::asio::ip::tcp::socket::wait_read,
                     gate_.pass([self = shared_from_this()](boost::system::error_code error) {
                       if (error) return self->end(loss_of(error), error.message());
                       if (self->handle_waiting(kMostAtOnce)) self->read_when_ready();
                     }));
}

// All of it at once: what has come by now is older than whatever happens next. After a pause of this process
// that is much, and then the order of what is taken must not depend on the pieces in which it is read. False
// when the channel was closed meanwhile.
bool Channel::handle_waiting(std::size_t at_most) {
  char chunk[kReadBytes];
  for (std::size_t taken = 0; read_frames() && taken < at_most;) {
    boost::system::error_code error;
    const std::size_t bytes = socket_.read_some(boost::asio::buffer(chunk), error);
    if (error == boost::asio::error::would_block) return true;
    if (error) return ended(write_error_ ? write_error_ : error), false;
    received_.append(chunk, bytes);
    taken += bytes;
  }
  return gate_.is_open();
}

void Channel::ended(boost::system::error_code error) {
  end(loss_of(error),
      error == boost::asio::error::eof ? "the other side closed the connection" : error.message());
}

// False when the channel was closed meanwhile.
bool Channel::read_frames() {
  while (gate_.is_open() && received_.size() >= kFrameHeaderBytes) {
    unsigned char header[kFrameHeaderBytes];
    std::copy_n(received_.begin(), kFrameHeaderBytes, header);
    const Result<std::size_t> length = parse_frame_length(header);
    if (!length) return not_understood(length.error());
    if (received_.size() < kFrameHeaderBytes + *length) break;
    Result<Message> message = parse_message(std::string_view(received_).substr(kFrameHeaderBytes, *length));
    received_.erase(0, kFrameHeaderBytes + *length);
    if (!message) return not_understood(message.error());
    on_message_(std::move(*message));
  }
  return gate_.is_open();
}

// Who is told that we close is to read that, whatever it says meanwhile. False when the channel was closed.
bool Channel::not_understood(const Error& error) {
  if (closes_after_sending_) return received_.clear(), true;
  return end(Loss::kReset, "the other side sent " + error.message()), false;
}

void Channel::send_bytes(std::string bytes) {
  given_bytes_ += bytes.size();
  if (!can_send()) return;
  bytes_to_send_ += bytes.size();
  to_send_.push_back(std::move(bytes));
  if (bytes_to_send_ > kMaxBacklogBytes) {
    boost::asio::post(socket_.get_executor(), gate_.pass([self = shared_from_this()] {
      if (self->closes_after_sending_) return;
      self->end(Loss::kReset, fmt::format("it did not read {} bytes", self->bytes_to_send_));
    }));
  }
  if (!is_writing_) write_what_fits();
}

// Not async_write: what the kernel has is to be known whenever this is closed.
void Channel::write_what_fits() {
  is_writing_ = true;
  boost::system::error_code error;
  while (!error && !to_send_.empty()) {
    const auto rest = boost::asio::buffer(to_send_.front()) + written_of_first_;
    const std::size_t bytes = socket_.write_some(rest, error);
    written_of_first_ += bytes;
    written_bytes_ += bytes;
    bytes_to_send_ -= bytes;
    if (written_of_first_ < to_send_.front().size()) continue;
    to_send_.pop_front();
    written_of_first_ = 0;
  }
  if (error != boost::asio::error::would_block) {
    return boost::asio::post(socket_.get_executor(),
                             gate_.pass([self = shared_from_this(), error] { self->wrote(error); }));
  }
  socket_.async_wait(boost::asio::ip::tcp::socket::wait_write,
                     gate_.pass([self = shared_from_this()](boost::system::error_code broken) {
                       if (broken) return self->send_no_more(broken);
                       self->write_what_fits();
                     }));
}

void Channel::wrote(boost::system::error_code error) {
  if (error) return send_no_more(error);
  is_writing_ = false;
  if (!to_send_.empty()) return write_what_fits();
  if (closes_after_sending_) return send_end();
  if (on_empty_) on_empty_();
}

// Its last words may lie here unread, and end with the end of the connection.
void Channel::send_no_more(boost::system::error_code error) {
  write_error_ = error;
  if (closes_after_sending_) return end(loss_of(error), error.message());
}

void Channel::read_out_and_close() {
  const auto self = shared_from_this();
  boost::system::error_code ignored;
  handle_waiting(kMostAtOnce + socket_.available(ignored));
  close();
}

void Channel::close_after_sending(Duration patience) {
  if (!gate_.is_open()) return;
  if (write_error_) return close();
  if (std::exchange(closes_after_sending_, true)) return;
  if (to_send_.empty()) send_end();
  const TimePoint now = BootClock::now();
  wait_for_farewell({untaken_bytes(), now, now + kLongestFarewell, patience});
}

// Where unread bytes of the other side lie in our kernel, close(2) sends a reset, and a reset makes the other side's
// kernel throw away what it has received of ours and not delivered. So only our half is closed here (a FIN), and the
// other side closes first, if it does so soon.
void Channel::send_end() {
  boost::system::error_code ignored;
  socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
}

// No event tells that the other side's kernel has taken more of what ours holds, so that is looked up.
void Channel::wait_for_farewell(Farewell seen) {
  farewell_.set_after(kLinger, [self = shared_from_this(), seen] {
    const TimePoint now = BootClock::now();
    const std::size_t untaken = self->untaken_bytes();
    if (seen.untaken == 0) return self->end(Loss::kClosed, "it was told that we close");
    const TimePoint moved_at = untaken < seen.untaken ? now : seen.moved_at;
    if (now - moved_at >= seen.patience || now >= seen.last)
      return self->end(Loss::kReset, fmt::format("it did not read {} bytes", untaken));
    self->wait_for_farewell({untaken, moved_at, seen.last, seen.patience});
  });
}

std::size_t Channel::bytes_in_kernel() {
  if (!gate_.is_open()) return in_kernel_at_end_;
  int bytes = 0;
  if (::ioctl(socket_.native_handle(), SIOCOUTQ, &bytes) != 0) bytes = 0;
  const bool has_sent_end = closes_after_sending_ && to_send_.empty();
  if (has_sent_end && bytes > 0) --bytes;  // the end itself counts as one
  return static_cast<std::size_t>(bytes);
}

void Channel::close() {
  if (!gate_.is_open()) return;
  let_go();
  boost::system::error_code ignored;
  socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
  socket_.close(ignored);
}

void Channel::close_and_discard() {
  if (!gate_.is_open()) return;
  boost::system::error_code ignored;
  let_go();
  socket_.set_option(boost::asio::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
}

void Channel::let_go() {
  in_kernel_at_end_ = bytes_in_kernel();
  gate_.close();
  farewell_.close();
}

void Channel::end(Loss loss, const std::string& why) {
  if (!gate_.is_open()) return;
  close();
  if (on_closed_) on_closed_(loss, why);
  if (closes_after_sending_ && on_farewell_over_) std::exchange(on_farewell_over_, nullptr)();
}

}  // namespace ddprun::membership
