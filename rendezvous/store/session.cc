#include "rendezvous/store/session.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ddprun::store {
namespace {

using boost::asio::ip::address;
using boost::asio::ip::tcp;

// A socket that listens on IPv6 shows IPv4 peers as ::ffff:10.0.0.1; people write 10.0.0.1.
address plain(const address& seen) {
  if (!seen.is_v6() || !seen.to_v6().is_v4_mapped()) return seen;
  return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, seen.to_v6());
}

std::string to_text(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", host, endpoint.port())
                                    : fmt::format("{}:{}", host, endpoint.port());
}

tcp::endpoint peer_of(const tcp::socket& socket) {
  boost::system::error_code ignored;  // a client that is gone already: 0.0.0.0:0, and reading tells
  const tcp::endpoint seen = socket.remote_endpoint(ignored);
  return {plain(seen.address()), seen.port()};
}

bool is_transient(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Session::Session(SessionHost& host, tcp::socket socket, std::shared_ptr<StoreCore> core, const Limits& limits)
    : host_(host),
      socket_(std::move(socket)),
      core_(std::move(core)),
      parser_(limits),
      peer_(peer_of(socket_)) {}

std::string Session::peer() const { return to_text(peer_); }

void Session::start() { await_input(); }

void Session::send(std::string_view bytes) {
  if (is_closed_) return;
  unsent_.append(bytes);
  if (wants_flush_) return;
  wants_flush_ = true;
  host_.flush_later(shared_from_this());
}

void Session::close(std::string_view reason) {
  if (is_closed_) return;
  is_closed_ = true;
  const std::shared_ptr<Session> self = shared_from_this();
  core_->disconnect(*this);
  boost::system::error_code ignored;
  socket_.close(ignored);
  host_.closed(*this, reason);
}

void Session::await_input() {
  if (is_reading_ || is_closed_) return;
  is_reading_ = true;
  socket_.async_wait(tcp::socket::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->is_reading_ = false;
                       if (!error && !self->is_closed_) self->on_input();
                     });
}

void Session::on_input() {
  const std::span<char> buffer = host_.scratch();
  const ssize_t count = ::recv(socket_.native_handle(), buffer.data(), buffer.size(), 0);
  if (count == 0) {
    close("");
  } else if (count > 0) {
    take({buffer.data(), static_cast<std::size_t>(count)});
  } else if (!is_transient(errno)) {
    close(fmt::format("cannot read: {}", std::strerror(errno)));
  }
  host_.flush_all();
  const bool holds_back = (is_waiting() && unserved_.size() > kMaxUnserved) || is_congested();
  if (!holds_back) await_input();
}

void Session::take(std::string_view bytes) {
  if (!is_introduced_ && unserved_.empty() && !introduce(bytes)) return;
  if (unserved_.empty()) {
    const std::size_t served = serve(bytes);
    if (!is_closed_) unserved_.assign(bytes.substr(served));
    return;
  }
  unserved_.append(bytes);
  serve_held_back();
}

void Session::serve_held_back() {
  const std::size_t served = serve(unserved_);
  if (is_closed_ || served == 0) return;
  unserved_.erase(0, served);
  if (unserved_.empty()) unserved_.shrink_to_fit();
}

// Returns how many bytes have been dealt with.
std::size_t Session::serve(std::string_view bytes) {
  std::size_t served = 0;
  is_held_back_ = false;
  while (!is_closed_) {
    if (is_congested()) {
      is_held_back_ = true;
      break;
    }
    const Result<bool> is_whole = parser_.parse(bytes.substr(served));
    if (!is_whole) {
      close(is_whole.error().message());
      break;
    }
    if (!*is_whole) break;
    if (is_waiting() && parser_.request().opcode != Opcode::kCancelWait) {
      is_held_back_ = true;
      break;
    }
    const Result<void> done = core_->serve(*this, parser_.request());
    if (!done) {
      close(done.error().message());
      break;
    }
    is_introduced_ = true;
    served += parser_.request_size();
    parser_.next();
  }
  return served;
}

// The first byte tells a store client, which begins with VALIDATE, from everybody else.
bool Session::introduce(std::string_view bytes) {
  if (bytes.front() == static_cast<char>(Opcode::kValidate)) {
    if (host_.admits(peer_.address())) return true;
    close("its address belongs to no member of the job");
    return false;
  }
  if (host_.take_over(socket_, bytes)) {
    close("");
    return false;
  }
  close(fmt::format("it began with byte {:#04x}, a TCPStore client begins with 0x00",
                    static_cast<unsigned char>(bytes.front())));
  return false;
}

void Session::flush() {
  wants_flush_ = false;
  if (is_closed_ || is_writing_) return;
  while (sent_ < unsent_.size()) {
    const ssize_t count =
        ::send(socket_.native_handle(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && is_transient(errno)) return await_output();
    if (count < 0) return close(fmt::format("cannot write: {}", std::strerror(errno)));
    sent_ += static_cast<std::size_t>(count);
  }
  sent_ = 0;
  unsent_.clear();
  if (unsent_.capacity() > kMaxUnserved) unsent_.shrink_to_fit();
  // Requests may have been held back for this client's wait, or for its slowness; their turn comes in a
  // handler of its own, for this one may be in the middle of another client's request.
  if (!is_held_back_ || is_waiting()) return;
  is_held_back_ = false;
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->is_closed_) return;
    self->serve_held_back();
    self->host_.flush_all();
    self->await_input();
  });
}

void Session::await_output() {
  is_writing_ = true;
  socket_.async_wait(tcp::socket::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->is_writing_ = false;
                       if (error || self->is_closed_) return;
                       self->flush();
                       self->host_.flush_all();
                     });
}

}  // namespace ddprun::store
