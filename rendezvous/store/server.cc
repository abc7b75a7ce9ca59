#include "rendezvous/store/server.h"

#include "rendezvous/store/listener.h"
#include "rendezvous/store/session.h"

#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <unordered_set>
#include <utility>
#include <vector>

namespace ddprun::store {
namespace {

using boost::asio::ip::tcp;

constexpr std::size_t kScratchBytes = 64 * 1024;
constexpr int kAcceptsInARow = 64;
// When the process is out of descriptors: time for some to be given back.
constexpr std::chrono::milliseconds kAcceptPause{100};

}  // namespace

class StoreServer::Impl final : public SessionHost, public std::enable_shared_from_this<StoreServer::Impl> {
 public:
  Impl(boost::asio::io_context& io, Listener listener, const StoreServerOptions& options, Logger& logger)
      : io_(io),
        acceptor_(io),
        port_(listener.port),
        protocol_(listener.is_ipv6 ? tcp::v6() : tcp::v4()),
        options_(options),
        logger_(logger),
        handshake_timer_(io),
        accept_pause_(io),
        scratch_(kScratchBytes) {
    acceptor_.assign(protocol_, listener.fd.release());
    begin_generation();
  }

  void start() { await_connection(); }

  [[nodiscard]] Port port() const { return port_; }
  [[nodiscard]] std::size_t connection_count() const { return sessions_.size(); }
  void begin_generation() { core_ = std::make_shared<StoreCore>(options_.limits); }
  void set_peer_handler(PeerHandler handler) { peer_handler_ = std::move(handler); }
  void set_address_filter(AddressFilter filter) { address_filter_ = std::move(filter); }

  void close() {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    handshake_timer_.cancel();
    accept_pause_.cancel();
    const auto sessions = std::exchange(sessions_, {});
    for (const std::shared_ptr<Session>& session : sessions) session->close("");
    to_flush_.clear();
    newcomers_.clear();
  }

  std::span<char> scratch() override { return scratch_; }

  void flush_later(std::shared_ptr<Session> session) override { to_flush_.push_back(std::move(session)); }

  // A flush may fail and close its session, which may wake others: the list can grow while it is worked
  // through.
  void flush_all() override {
    for (std::size_t i = 0; i < to_flush_.size(); ++i) std::shared_ptr<Session>(to_flush_[i])->flush();
    to_flush_.clear();
  }

  bool admits(const boost::asio::ip::address& address) override {
    return !address_filter_ || address_filter_(address);
  }

  bool take_over(tcp::socket& socket, std::string_view first_bytes) override {
    if (!peer_handler_) return false;
    peer_handler_(std::move(socket), std::string(first_bytes));
    return true;
  }

  void closed(Session& session, std::string_view reason) override {
    sessions_.erase(session.shared_from_this());
    if (reason.empty()) {
      logger_.debug("store: {} left", session.peer());
    } else {
      logger_.warn("store: closed the connection of {}: {}", session.peer(), reason);
    }
  }

 private:
  struct Newcomer {
    std::weak_ptr<Session> session;
    std::chrono::steady_clock::time_point deadline;
  };

  void await_connection() {
    acceptor_.async_wait(tcp::acceptor::wait_read,
                         [self = shared_from_this()](const boost::system::error_code& error) {
                           if (!error && self->acceptor_.is_open()) self->accept_some();
                         });
  }

  void accept_some() {
    for (int i = 0; i < kAcceptsInARow; ++i) {
      UniqueFd fd = accept_connection(acceptor_.native_handle());
      if (fd) {
        welcome(std::move(fd));
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        return pause_accepting(errno);
      } else if (errno == EAGAIN) {
        break;
      }
    }
    await_connection();
  }

  void pause_accepting(int error) {
    logger_.warn("store: cannot accept a connection: {}; {} are open; trying again in {} ms",
                 std::strerror(error), sessions_.size(), kAcceptPause.count());
    accept_pause_.expires_after(kAcceptPause);
    accept_pause_.async_wait([self = shared_from_this()](const boost::system::error_code& cancelled) {
      if (!cancelled && self->acceptor_.is_open()) self->await_connection();
    });
  }

  void welcome(UniqueFd fd) {
    tcp::socket socket(io_);
    boost::system::error_code error;
    socket.assign(protocol_, fd.get(), error);
    if (error) return logger_.warn("store: cannot watch a new connection: {}", error.message());
    (void)fd.release();
    // Not make_shared: newcomers_ may remember a session long after it is gone, and must not keep its memory.
    const std::shared_ptr<Session> session(new Session(*this, std::move(socket), core_, options_.limits));
    sessions_.insert(session);
    session->start();
    newcomers_.push_back({session, std::chrono::steady_clock::now() + options_.handshake_timeout});
    if (newcomers_.size() == 1) await_introductions();
  }

  // All newcomers have the same time-out, so the oldest is the first to be due: one timer serves all.
  void await_introductions() {
    handshake_timer_.expires_at(newcomers_.front().deadline);
    handshake_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& cancelled) {
      if (!cancelled) self->dismiss_silent_newcomers();
    });
  }

  void dismiss_silent_newcomers() {
    const auto now = std::chrono::steady_clock::now();
    while (!newcomers_.empty()) {
      const std::shared_ptr<Session> session = newcomers_.front().session.lock();
      const bool is_settled = session == nullptr || session->is_introduced();
      if (!is_settled && newcomers_.front().deadline > now) break;
      newcomers_.pop_front();
      if (is_settled) continue;
      session->close(
          fmt::format("it did not introduce itself within {} ms", options_.handshake_timeout.count()));
    }
    if (!newcomers_.empty()) await_introductions();
  }

  boost::asio::io_context& io_;
  tcp::acceptor acceptor_;
  Port port_;
  tcp protocol_;
  StoreServerOptions options_;
  Logger& logger_;
  PeerHandler peer_handler_;
  AddressFilter address_filter_;
  std::shared_ptr<StoreCore> core_;
  std::unordered_set<std::shared_ptr<Session>> sessions_;
  std::vector<std::shared_ptr<Session>> to_flush_;
  std::deque<Newcomer> newcomers_;
  boost::asio::steady_timer handshake_timer_;
  boost::asio::steady_timer accept_pause_;
  std::vector<char> scratch_;
};

Result<std::unique_ptr<StoreServer>> StoreServer::open(boost::asio::io_context& io,
                                                       const StoreServerOptions& options, Logger& logger) {
  Result<Listener> listener =
      options.inherited_fd ? adopt_listener(*options.inherited_fd) : listen_on(options.host, options.port);
  if (!listener) return listener.error().with("store");
  auto impl = std::make_shared<Impl>(io, std::move(*listener), options, logger);
  impl->start();
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(impl)));
}

StoreServer::StoreServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
StoreServer::~StoreServer() { close(); }

Port StoreServer::port() const { return impl_->port(); }
void StoreServer::begin_generation() { impl_->begin_generation(); }
void StoreServer::set_peer_handler(PeerHandler handler) { impl_->set_peer_handler(std::move(handler)); }
void StoreServer::set_address_filter(AddressFilter filter) { impl_->set_address_filter(std::move(filter)); }
std::size_t StoreServer::connection_count() const { return impl_->connection_count(); }
void StoreServer::close() { impl_->close(); }

}  // namespace ddprun::store
