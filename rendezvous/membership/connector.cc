#include "rendezvous/membership/connector.h"

#include "rendezvous/membership/channel.h"

#include <boost/asio/post.hpp>
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun::membership {
namespace {

using boost::asio::ip::tcp;
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
      lookup_(io),
      limit_(io),
      socket_(io) {}

void Connector::start(OnDone on_done) {
  on_done_ = std::move(on_done);
  boost::system::error_code not_numeric;
  const auto numeric = boost::asio::ip::make_address(host_, not_numeric);
  if (not_numeric) return resolve();
  add(numeric);
  add_all(also_try_);
  boost::asio::post(io_, gate_.pass([this] { try_next(); }));
}

void Connector::resolve() {
  lookup_.start(host_, [this](const Result<HostAddresses>& found) {
    if (found) {
      add_all(*found);
    } else {
      tried_ = found.error().message();
    }
    add_all(also_try_);
    try_next();
  });
}

void Connector::add_all(const HostAddresses& addresses) {
  for (const std::string& address : addresses) {
    boost::system::error_code bad;
    const auto more = boost::asio::ip::make_address(address, bad);
    if (!bad) add(more);
  }
}

void Connector::add(const boost::asio::ip::address& address) {
  const Endpoint endpoint(plain_address(address), port_.value());
  if (std::find(endpoints_.begin(), endpoints_.end(), endpoint) == endpoints_.end())
    endpoints_.push_back(endpoint);
}

void Connector::try_next() {
  if (next_ == endpoints_.size()) return std::exchange(on_done_, nullptr)(std::nullopt, tried_);
  const Endpoint endpoint = endpoints_[next_++];
  gate_.turn_away();  // an attempt that was given up has nothing to say any more
  socket_ = tcp::socket(io_);
  boost::system::error_code error;
  socket_.open(endpoint.protocol(), error);
  if (error) return failed(endpoint, error);
  ::fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);
  limit_.set_after(kAddressTime, [this, endpoint] { failed(endpoint, boost::asio::error::timed_out); });
  socket_.async_connect(endpoint, gate_.pass([this, endpoint](boost::system::error_code result) {
    if (result) return failed(endpoint, result);
    limit_.cancel();
    std::exchange(on_done_, nullptr)(std::move(socket_), tried_);
  }));
}

void Connector::failed(const Endpoint& endpoint, boost::system::error_code error) {
  limit_.cancel();
  if (!tried_.empty()) tried_ += "; ";
  tried_ += fmt::format("[{}] {}", endpoint.address().to_string(), plain_reason(error));
  try_next();
}

}  // namespace ddprun::membership
