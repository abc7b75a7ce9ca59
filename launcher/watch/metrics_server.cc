#include "launcher/watch/metrics_server.h"

#include "launcher/watch/metrics_text.h"
#include "launcher/watch/sampler.h"
#include "rendezvous/base/alarm.h"
#include "rendezvous/base/gate.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>

namespace ddprun::launcher::watch {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

using Response = http::response<http::string_body>;

Response answer_to(const http::request<http::empty_body>& request, JobSampler& sampler) {
  Response response(http::status::ok, request.version());
  response.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
  response.keep_alive(false);
  const bool is_read = request.method() == http::verb::get || request.method() == http::verb::head;
  if (!is_read) {
    response.result(http::status::method_not_allowed);
    response.set(http::field::allow, "GET, HEAD");
  } else if (request.target().substr(0, request.target().find('?')) != "/metrics") {
    response.result(http::status::not_found);
    response.body() = "the numbers are at /metrics\n";
  } else if (const std::optional<JobSample> sample = sampler.sample()) {
    response.body() = metrics_text(*sample);
  } else {
    response.result(http::status::service_unavailable);
  }
  response.prepare_payload();
  if (request.method() == http::verb::head) response.body().clear();
  return response;
}

/// Somebody who asks, and is closed when that or the answer takes too long.
class Client final : public std::enable_shared_from_this<Client> {
 public:
  Client(tcp::socket socket, JobSampler& sampler) : stream_(std::move(socket)), sampler_(sampler) {
    constexpr std::uint32_t kLongestHead = 8192;
    parser_.header_limit(kLongestHead);
  }

  void serve() {
    stream_.expires_after(kPatience);
    http::async_read_header(stream_, buffer_, parser_,
                            [self = shared_from_this()](boost::system::error_code error, std::size_t) {
                              if (!error) self->answer();
                            });
  }

  void close() { stream_.close(); }

 private:
  static constexpr std::chrono::seconds kPatience{5};

  void answer() {
    response_ = answer_to(parser_.get(), sampler_);
    stream_.expires_after(kPatience);
    http::async_write(stream_, response_,
                      [self = shared_from_this()](boost::system::error_code, std::size_t) { self->close(); });
  }

  boost::beast::tcp_stream stream_;
  JobSampler& sampler_;
  boost::beast::flat_buffer buffer_;
  http::request_parser<http::empty_body> parser_;
  Response response_;
};

/// Of those that come when there are many, the oldest gives way: whoever asks is answered at once.
class Clients {
 public:
  Clients(asio::io_context& io, tcp::acceptor& acceptor, JobSampler& sampler)
      : acceptor_(acceptor), sampler_(sampler), pause_(io) {}

  void accept() {
    acceptor_.async_accept(gate_.pass([this](boost::system::error_code error, tcp::socket socket) {
      constexpr std::chrono::milliseconds kPause{100};
      if (error) return pause_.set_after(kPause, [this] { accept(); });  // no descriptor is left
      welcome(std::move(socket));
      accept();
    }));
  }

 private:
  void welcome(tcp::socket socket) {
    constexpr std::size_t kMost = 64;
    std::erase_if(clients_, [](const auto& client) { return client.expired(); });
    if (clients_.size() >= kMost) {
      if (const auto oldest = clients_.front().lock()) oldest->close();
      clients_.pop_front();
    }
    const auto client = std::make_shared<Client>(std::move(socket), sampler_);
    clients_.push_back(client);
    client->serve();
  }

  tcp::acceptor& acceptor_;
  JobSampler& sampler_;
  Alarm pause_;
  std::list<std::weak_ptr<Client>> clients_;
  Gate gate_;
};

void serve_all(int listener, pid_t launcher, const std::string& command) {
  asio::io_context io;
  tcp::acceptor acceptor(io);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &size);
  acceptor.assign(bound.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), listener);
  JobSampler sampler(launcher, command);
  Clients clients(io, acceptor, sampler);
  clients.accept();
  io.run();
}

asio::ip::address address_of_host(const std::string& host, boost::system::error_code& error) {
  if (host.empty() || host == "localhost") return asio::ip::address_v4::loopback();
  return asio::ip::make_address(host, error);
}

}  // namespace

Result<MetricsServer> MetricsServer::start(const Endpoint& place, const std::string& command) {
  const std::uint16_t wanted_port = place.port ? place.port->value() : std::uint16_t{0};
  asio::io_context io;
  boost::system::error_code error;
  const asio::ip::address host = address_of_host(place.host, error);
  if (error)
    return Error(
        ErrorCode::kUsage,
        fmt::format("--metrics: \"{}\" is no address; write {} for this host alone, or 0.0.0.0:{} for all",
                    place.host, wanted_port, wanted_port));
  tcp::acceptor acceptor(io);
  const tcp::endpoint wanted(host, wanted_port);
  acceptor.open(wanted.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(wanted, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    return Error(ErrorCode::kOs,
                 fmt::format("--metrics: nobody can listen at {}: {}", to_string(place), error.message()));
  const std::uint16_t port = acceptor.local_endpoint().port();
  const pid_t launcher = ::getpid();
  Result<why::Beside> process = why::start_beside(
      "metrics", acceptor.native_handle(), [&](int listener) { serve_all(listener, launcher, command); });
  if (!process) return process.error();
  const Endpoint shown{place.host.empty() ? "localhost" : place.host, Port(port)};
  return MetricsServer(std::move(*process), fmt::format("http://{}/metrics", to_string(shown)));
}

}  // namespace ddprun::launcher::watch
