#include "rendezvous/membership/connector.h"

#include "rendezvous/membership/channel.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun::membership {
namespace {

using boost::asio::ip::tcp;
constexpr auto kToken = boost::asio::as_tuple(boost::asio::use_awaitable);
constexpr auto kAddressTime = std::chrono::milliseconds(1500);

std::string plain_reason(boost::system::error_code error) {
  std::string text = error.message();
  if (!text.empty() && text.front() >= 'A' && text.front() <= 'Z')
    text.front() = static_cast<char>(text.front() + 32);
  return text;
}

}  // namespace

Connector::Connector(boost::asio::io_context& io, std::string host, Port port,
                     std::vector<std::string> also_try)
    : io_(io),
      host_(std::move(host)),
      port_(port),
      also_try_(std::move(also_try)),
      resolver_(io),
      timer_(io) {}

void Connector::start(OnDone on_done) {
  on_done_ = std::move(on_done);
  boost::asio::co_spawn(
      io_, [self = shared_from_this()] { return self->run(); }, boost::asio::detached);
}

void Connector::cancel() {
  is_cancelled_ = true;
  resolver_.cancel();
  timer_.cancel();
  boost::system::error_code ignored;
  if (socket_) socket_->close(ignored);
  on_done_ = nullptr;
}

boost::asio::awaitable<void> Connector::run() {
  const auto self = shared_from_this();
  co_await collect_addresses();
  bool is_connected = false;
  for (const Endpoint& endpoint : endpoints_) {
    if (is_cancelled_) co_return;
    is_connected = co_await connect(endpoint);
    if (is_connected) break;
  }
  if (is_cancelled_) co_return;
  const OnDone on_done = std::exchange(on_done_, nullptr);
  std::optional<tcp::socket> socket;
  if (is_connected) socket.emplace(std::move(*socket_));
  on_done(std::move(socket), tried_);
}

void Connector::add(const boost::asio::ip::address& address) {
  const Endpoint endpoint(plain_address(address), port_.value());
  if (std::find(endpoints_.begin(), endpoints_.end(), endpoint) == endpoints_.end())
    endpoints_.push_back(endpoint);
}

boost::asio::awaitable<void> Connector::collect_addresses() {
  boost::system::error_code not_numeric;
  const auto numeric = boost::asio::ip::make_address(host_, not_numeric);
  if (!not_numeric) {
    add(numeric);
  } else {
    const auto [error, found] =
        co_await resolver_.async_resolve(host_, "", tcp::resolver::numeric_service, kToken);
    if (error) {
      tried_ = fmt::format("the name {} cannot be resolved ({})", host_, plain_reason(error));
    } else {
      for (const auto& entry : found) add(entry.endpoint().address());
    }
  }
  for (const std::string& address : also_try_) {
    boost::system::error_code bad;
    const auto more = boost::asio::ip::make_address(address, bad);
    if (!bad) add(more);
  }
}

boost::asio::awaitable<bool> Connector::connect(const Endpoint& endpoint) {
  socket_.emplace(io_);
  boost::system::error_code error;
  socket_->open(endpoint.protocol(), error);
  if (!error) {
    ::fcntl(socket_->native_handle(), F_SETFD, FD_CLOEXEC);
    bool timed_out = false;
    timer_.expires_after(kAddressTime);
    timer_.async_wait(
        [self = shared_from_this(), attempt = ++attempt_, &timed_out](boost::system::error_code stopped) {
          if (stopped || attempt != self->attempt_) return;
          timed_out = true;
          boost::system::error_code ignored;
          self->socket_->close(ignored);
        });
    const auto [failed] = co_await socket_->async_connect(endpoint, kToken);
    ++attempt_;
    timer_.cancel();
    error = timed_out ? boost::asio::error::timed_out : failed;
  }
  if (!error) co_return true;
  if (!tried_.empty()) tried_ += "; ";
  tried_ += fmt::format("[{}] {}", endpoint.address().to_string(), plain_reason(error));
  co_return false;
}

}  // namespace ddprun::membership
