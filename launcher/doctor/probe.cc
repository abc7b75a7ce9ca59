#include "launcher/doctor/probe.h"

#include "rendezvous/base/format_duration.h"
#include "rendezvous/membership/auth.h"
#include "rendezvous/membership/channel.h"

#include <boost/asio/buffer.hpp>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

using boost::asio::ip::tcp;

constexpr std::size_t kMostGuests = 16;
constexpr auto kGuestTime = std::chrono::seconds(10);
constexpr auto kTimeToSpeak = std::chrono::seconds(5);
constexpr auto kCallTime = std::chrono::seconds(5);
constexpr int kEchoes = 10;
constexpr std::size_t kChunkBytes = 256 * 1024;
constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;

// One loop, so one at a time uses it.
std::vector<char>& chunk() {
  static std::vector<char> bytes(kChunkBytes);
  return bytes;
}

bool would_block(boost::system::error_code error) { return error == boost::asio::error::would_block; }

}  // namespace

/// Somebody who knows the token.
class ProbeTarget::Guest : public std::enable_shared_from_this<Guest> {
 public:
  explicit Guest(tcp::socket socket) : socket_(std::move(socket)), limit_(socket_.get_executor()) {}

  void start(std::string_view bytes) {
    boost::system::error_code ignored;
    socket_.non_blocking(true, ignored);
    limit_.set_after(kGuestTime, [this] { close(); });
    if (!take(bytes)) return close();
    await();
  }
  void close() {
    gate_.close();
    limit_.close();
    boost::system::error_code ignored;
    socket_.close(ignored);
  }
  [[nodiscard]] bool is_open() const { return gate_.is_open(); }

 private:
  void await() {
    socket_.async_wait(tcp::socket::wait_read,
                       gate_.pass([self = shared_from_this()](boost::system::error_code error) {
                         if (error) return self->close();
                         self->read();
                       }));
  }
  void read() {
    boost::system::error_code error;
    const std::size_t bytes = socket_.read_some(boost::asio::buffer(chunk()), error);
    if (would_block(error)) return await();
    if (error == boost::asio::error::eof && is_streaming_) return tell_count();
    if (error || !take({chunk().data(), bytes})) return close();
    await();
  }
  // False when it breaks the rules. What comes back is a byte or two: a socket that does not take them is closed.
  bool take(std::string_view bytes) {
    std::size_t echoes = 0;
    while (!is_streaming_ && !bytes.empty()) {
      if (bytes.front() == doctor_talk::kStreamBegins) {
        is_streaming_ = true;
      } else if (bytes.front() != doctor_talk::kEcho || ++echoes > kEchoes) {
        return false;
      }
      bytes.remove_prefix(1);
    }
    streamed_ += bytes.size();
    return echoes == 0 || write(std::string(echoes, doctor_talk::kEcho));
  }
  void tell_count() {
    std::string count;
    for (int shift = 56; shift >= 0; shift -= 8) count += static_cast<char>((streamed_ >> shift) & 0xffU);
    write(count);
    close();
  }
  bool write(const std::string& text) {
    boost::system::error_code error;
    return socket_.write_some(boost::asio::buffer(text), error) == text.size() && !error;
  }

  tcp::socket socket_;
  Alarm limit_;
  bool is_streaming_ = false;
  std::uint64_t streamed_ = 0;
  Gate gate_;
};

Result<std::unique_ptr<ProbeTarget>> ProbeTarget::open(boost::asio::io_context& io, const ListenAt& at,
                                                       Logger& logger) {
  store::StoreServerOptions options;
  options.at = at;
  options.handshake_timeout = kTimeToSpeak;
  options.reserved_descriptors = [] { return store::kServersOwnDescriptors; };
  auto server = store::StoreServer::open(io, options, logger);
  if (!server) return server.error();
  std::unique_ptr<ProbeTarget> target(new ProbeTarget(std::move(*server), membership::make_nonce()));
  target->server_->set_address_filter([](const boost::asio::ip::address&) { return false; });  // no store
  target->server_->set_peer_handler(target->token_,
                                    [target = target.get()](tcp::socket socket, std::string bytes) {
                                      target->take(std::move(socket), std::move(bytes));
                                    });
  return target;
}

ProbeTarget::ProbeTarget(std::unique_ptr<store::StoreServer> server, std::string token)
    : token_(std::move(token)), server_(std::move(server)) {}

void ProbeTarget::take(tcp::socket socket, std::string bytes_after) {
  std::erase_if(guests_, [](const auto& guest) { return !guest->is_open(); });
  if (guests_.size() == kMostGuests) {
    guests_.front()->close();
    guests_.pop_front();
  }
  guests_.push_back(std::make_shared<Guest>(std::move(socket)));
  guests_.back()->start(bytes_after);
}

void ProbeTarget::close() {
  server_->close();
  for (const auto& guest : guests_) guest->close();
  guests_.clear();
}

ProbeCall::ProbeCall(boost::asio::io_context& io, std::string address, doctor_talk::ProbeOne asked)
    : asked_(std::move(asked)),
      connector_(io, std::move(address), asked_.place.port, {}),
      socket_(io),
      limit_(io) {}

void ProbeCall::start(OnDone on_done) {
  on_done_ = std::move(on_done);
  connector_.start([this](std::optional<tcp::socket> socket, const std::string& tried) {
    if (socket) return greet(std::move(*socket));
    const std::size_t reason = tried.find("] ");  // the address is known to who asks
    fail(reason == std::string::npos ? tried : tried.substr(reason + 2));
  });
}

void ProbeCall::greet(tcp::socket socket) {
  socket_ = std::move(socket);
  boost::system::error_code error;
  socket_.set_option(tcp::no_delay(true), error);
  socket_.non_blocking(true, error);
  limit_.set_after(kCallTime, [this] {
    fail(fmt::format("{} within {}", streamed_ > 0 ? "a stream of bytes does not arrive" : "no answer",
                     format_duration(kCallTime)));
  });
  socket_.write_some(boost::asio::buffer(asked_.place.token), error);
  if (error) return fail(error.message());
  send_echo();
}

void ProbeCall::send_echo() {
  boost::system::error_code error;
  sent_at_ = BootClock::now();
  socket_.write_some(boost::asio::buffer(&doctor_talk::kEcho, 1), error);
  if (error) return fail(error.message());
  await(tcp::socket::wait_read, &ProbeCall::read_echo);
}

void ProbeCall::await(tcp::socket::wait_type what, void (ProbeCall::*then)()) {
  socket_.async_wait(what, gate_.pass([this, then](boost::system::error_code error) {
    if (error) return fail(error.message());
    (this->*then)();
  }));
}

void ProbeCall::read_echo() {
  char byte = 0;
  boost::system::error_code error;
  socket_.read_some(boost::asio::buffer(&byte, 1), error);
  if (would_block(error)) return await(tcp::socket::wait_read, &ProbeCall::read_echo);
  if (error) return fail("the other side closed the connection");
  const double trip = to_seconds(BootClock::now() - sent_at_);
  result_.round_trip = std::min(result_.round_trip.value_or(trip), trip);
  if (++echoes_ < kEchoes) return send_echo();
  begin_stream();
}

void ProbeCall::begin_stream() {
  boost::system::error_code error;
  socket_.write_some(boost::asio::buffer(&doctor_talk::kStreamBegins, 1), error);
  if (error) return fail(error.message());
  stream_began_ = BootClock::now();
  // Or a slow network would have to take all that fits into the kernel's buffer before the end.
  const int most_unsent = kChunkBytes;
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most_unsent, sizeof most_unsent);
  send_stream();
}

void ProbeCall::send_stream() {
  const bool is_over = BootClock::now() - stream_began_ >= asked_.stream || streamed_ >= kMostBytes;
  if (is_over && streamed_ > 0) return end_stream();
  boost::system::error_code error;
  streamed_ += socket_.write_some(boost::asio::buffer(chunk()), error);
  if (error && !would_block(error)) return fail(error.message());
  await(tcp::socket::wait_write, &ProbeCall::send_stream);
}

void ProbeCall::end_stream() {
  boost::system::error_code error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  if (error) return fail(error.message());
  await(tcp::socket::wait_read, &ProbeCall::read_count);
}

void ProbeCall::read_count() {
  boost::system::error_code error;
  counted_ += socket_.read_some(boost::asio::buffer(count_) + counted_, error);
  if (error && !would_block(error)) return fail("the other side closed the connection");
  if (counted_ < count_.size()) return await(tcp::socket::wait_read, &ProbeCall::read_count);
  std::uint64_t arrived = 0;
  for (const unsigned char byte : count_) arrived = arrived << 8U | byte;
  if (arrived != streamed_) return fail(fmt::format("of {} bytes it counts {}", streamed_, arrived));
  result_.bits_per_second =
      8.0 * static_cast<double>(streamed_) / to_seconds(BootClock::now() - stream_began_);
  finish();
}

void ProbeCall::fail(const std::string& why) {
  result_.error = why;
  if (!result_.error.empty() && result_.error.front() >= 'A' && result_.error.front() <= 'Z')
    result_.error.front() = static_cast<char>(result_.error.front() + 32);
  finish();
}

void ProbeCall::finish() {
  gate_.close();
  limit_.close();
  boost::system::error_code ignored;
  socket_.close(ignored);
  const OnDone on_done = std::exchange(on_done_, nullptr);
  on_done(result_);
}

}  // namespace ddprun::launcher
