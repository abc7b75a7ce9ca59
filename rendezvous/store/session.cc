#include "rendezvous/store/session.h"

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

// A client that is gone already has no address: 0.0.0.0:0, and reading tells.
tcp::endpoint peer_of(int connection) {
  tcp::endpoint seen;
  auto size = static_cast<socklen_t>(seen.capacity());
  if (::getpeername(connection, seen.data(), &size) != 0) return {};
  seen.resize(size);
  return {plain(seen.address()), seen.port()};
}

bool is_transient(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Session::Session(SessionHost& host, UniqueFd connection, std::shared_ptr<StoreCore> core,
                 const Limits& limits)
    : host_(host),
      connection_(std::move(connection)),
      core_(std::move(core)),
      parser_(limits),
      peer_(peer_of(connection_.get())) {}

bool Session::start() {
  interest_ = EPOLLIN;
  return host_.poller().add(connection_.get(), interest_, *this);
}

std::string Session::peer() const { return to_text(peer_); }

// An error or a hang-up is found out by reading, whatever is watched for.
void Session::on_ready(std::uint32_t events) {
  if (is_closed_) return;
  if ((events & EPOLLOUT) != 0) {
    is_blocked_ = false;
    want_settling();
  }
  if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) read();
}

void Session::send(std::string_view bytes) {
  if (is_closed_) return;
  output_.append(bytes);
  want_settling();
}

void Session::settle() {
  wants_settling_ = false;
  if (is_closed_) return;
  if (!is_blocked_) write();
  if (!is_closed_ && is_held_back_ && !is_waiting() && !is_congested()) serve_held_back();
  if (!is_closed_) watch();
}

void Session::close(std::string_view reason) {
  if (is_closed_) return;
  is_closed_ = true;
  core_->disconnect(*this);
  if (connection_) host_.poller().remove(connection_.get(), *this);
  connection_.reset();
  host_.closed(*this, reason);
}

void Session::read() {
  const std::span<char> buffer = host_.scratch();
  const ssize_t count = ::recv(connection_.get(), buffer.data(), buffer.size(), 0);
  if (count == 0) return close("");
  if (count > 0) return handle({buffer.data(), static_cast<std::size_t>(count)});
  if (!is_transient(errno)) close(fmt::format("cannot read: {}", std::strerror(errno)));
}

void Session::handle(std::string_view bytes) {
  if (!is_store_client_) {
    unserved_.append(bytes);
    if (introduce()) serve_held_back();
  } else if (unserved_.empty()) {
    const std::size_t served = serve(bytes);
    if (!is_closed_ && served < bytes.size()) unserved_.assign(bytes.substr(served));
  } else {
    unserved_.append(bytes);
    serve_held_back();
  }
  if (is_held_back_) want_settling();
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
    if (!std::exchange(is_introduced_, true)) host_.introduced(*this);
    served += parser_.request_size();
    parser_.next();
  }
  return served;
}

// The first byte tells a store client, which begins with VALIDATE, from everybody else. False: it is none, or
// the connection is closed.
bool Session::introduce() {
  if (unserved_.front() != static_cast<char>(Opcode::kValidate)) return meet_peer();
  is_store_client_ = host_.admits(peer_.address());
  if (!is_store_client_) close("its address belongs to no member of the job");
  return is_store_client_;
}

// Until the greeting is whole the connection stays here, where its time is counted.
bool Session::meet_peer() {
  const std::string_view greeting = host_.peer_greeting();
  const std::string_view begun = std::string_view(unserved_).substr(0, greeting.size());
  if (begun != greeting.substr(0, begun.size()) || greeting.empty()) {
    close(fmt::format("it began with byte {:#04x}, a TCPStore client begins with 0x00",
                      static_cast<unsigned char>(unserved_.front())));
  } else if (begun.size() == greeting.size()) {
    host_.poller().remove(connection_.get(), *this);
    const bool is_taken = host_.hand_over(connection_, std::string_view(unserved_).substr(greeting.size()));
    close(is_taken ? "" : "the kernel has no memory for it");
  }
  return false;
}

void Session::write() {
  while (unsent() > 0) {
    const ssize_t count = ::send(connection_.get(), output_.data() + sent_, unsent(), MSG_NOSIGNAL);
    if (count < 0 && is_transient(errno)) {
      is_blocked_ = true;
      return;
    }
    if (count < 0) return close(fmt::format("cannot write: {}", std::strerror(errno)));
    sent_ += static_cast<std::size_t>(count);
    // A client that is always behind never lets the buffer run empty: what is gone is thrown away in between.
    if (sent_ > kMaxUnsent && sent_ > unsent()) output_.erase(0, std::exchange(sent_, 0));
  }
  sent_ = 0;
  output_.clear();
  if (output_.capacity() > kMaxUnserved) output_.shrink_to_fit();
}

void Session::want_settling() {
  if (wants_settling_) return;
  wants_settling_ = true;
  host_.settle_later(*this);
}

void Session::watch() {
  const bool is_full = is_congested() || (is_waiting() && unserved_.size() > kMaxUnserved);
  const std::uint32_t interest = (is_full ? 0U : EPOLLIN) | (is_blocked_ ? EPOLLOUT : 0U);
  if (interest == interest_) return;
  interest_ = interest;
  host_.poller().modify(connection_.get(), interest_, *this);
}

}  // namespace ddprun::store
