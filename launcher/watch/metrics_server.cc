#include "launcher/watch/metrics_server.h"

#include "launcher/process/pidfd.h"
#include "launcher/watch/metrics_text.h"
#include "launcher/watch/sampler.h"
#include "launcher/why/desk/beside.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <sstream>
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
  } else if (request.target() != "/metrics") {
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

using SteadyTime = std::chrono::steady_clock::time_point;

/// Whether the socket is ready before the deadline.
bool is_ready(int socket, short events, SteadyTime deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  pollfd wait{socket, events, 0};
  return left.count() > 0 && ::poll(&wait, 1, static_cast<int>(left.count())) == 1;
}

/// The head of a request; empty: none that is whole came in time.
std::string read_head(int socket, SteadyTime deadline) {
  constexpr std::size_t kLongest = 8192;
  std::array<char, 2048> buffer{};
  std::string text;
  while (text.size() < kLongest && is_ready(socket, POLLIN, deadline)) {
    const ssize_t count = ::recv(socket, buffer.data(), buffer.size(), 0);
    if (count <= 0) return {};
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.find("\r\n\r\n") != std::string::npos) return text;
  }
  return {};
}

// Its own time-outs: with SO_RCVTIMEO asio's blocking reads begin again.
void serve(int socket, JobSampler& sampler) {
  const SteadyTime deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  const std::string head = read_head(socket, deadline);
  http::request_parser<http::empty_body> parser;
  boost::system::error_code error;
  parser.put(asio::buffer(head), error);
  if (head.empty() || error || !parser.is_header_done()) return;
  std::ostringstream text;
  text << answer_to(parser.get(), sampler);
  const std::string answer = text.str();
  for (std::size_t sent = 0; sent < answer.size() && is_ready(socket, POLLOUT, deadline);) {
    const ssize_t count =
        ::send(socket, answer.data() + sent, answer.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN) return;
    sent += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
}

[[noreturn]] void serve_all(int listener, pid_t launcher, const std::string& command) {
  asio::io_context io;
  tcp::acceptor acceptor(io);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &size);
  acceptor.assign(bound.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), listener);
  JobSampler sampler(launcher, command);
  for (;;) {
    boost::system::error_code error;
    tcp::socket socket(io);
    acceptor.accept(socket, error);
    if (!error) serve(socket.native_handle(), sampler);
  }
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
  Result<UniqueFd> pidfd = why::start_beside("metrics", acceptor.native_handle(),
                                             [&](int listener) { serve_all(listener, launcher, command); });
  if (!pidfd) return pidfd.error();
  const std::string shown = place.host.empty()                          ? "localhost"
                            : place.host.find(':') == std::string::npos ? place.host
                                                                        : "[" + place.host + "]";
  return MetricsServer(std::move(*pidfd), fmt::format("http://{}:{}/metrics", shown, port));
}

MetricsServer::~MetricsServer() {
  if (pidfd_) signal_pidfd(pidfd_, SIGKILL);
}

}  // namespace ddprun::launcher::watch
