#include "rendezvous/store/server.h"

#include "rendezvous/base/alarm.h"
#include "rendezvous/base/format_duration.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/stranger_log.h"
#include "rendezvous/base/waiting_room.h"
#include "rendezvous/store/limits.h"
#include "rendezvous/store/listener.h"
#include "rendezvous/store/poller.h"
#include "rendezvous/store/session.h"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ddprun::store {
namespace {

using boost::asio::ip::tcp;

constexpr std::size_t kScratchBytes = 64 * 1024;
constexpr int kAcceptsInARow = 64;
// Of connections that wait to be accepted; the kernel's own limit is SOMAXCONN.
constexpr int kLongestQueue = 2 * SOMAXCONN;
// When the process is out of descriptors: time for some to be given back.
constexpr std::chrono::milliseconds kAcceptPause{100};
// A newcomer that has said nothing for so long gives way to the next one.
constexpr std::chrono::seconds kTimeToSpeak{1};
// A client that has its reply often asks again at once. Looking for that a little while, with the CPU offered
// to whoever wants it, is cheaper for both than falling asleep and being woken.
constexpr std::chrono::microseconds kLinger{50};
// After this long other handlers of the io_context get their turn.
constexpr std::chrono::milliseconds kLongestTurn{1};

/// For as long as it lives the kernel keeps the last `count` descriptors of this process back.
class DescriptorReserve {
 public:
  explicit DescriptorReserve(std::size_t count) {
    if (count == 0 || ::getrlimit(RLIMIT_NOFILE, &whole_) != 0) return;
    rlimit lowered = whole_;
    lowered.rlim_cur -= std::min<rlim_t>(count, whole_.rlim_cur / 2);
    is_lowered_ = ::setrlimit(RLIMIT_NOFILE, &lowered) == 0;
  }
  ~DescriptorReserve() {
    const int error = errno;
    if (is_lowered_) ::setrlimit(RLIMIT_NOFILE, &whole_);
    errno = error;
  }
  DescriptorReserve(const DescriptorReserve&) = delete;
  DescriptorReserve& operator=(const DescriptorReserve&) = delete;

 private:
  rlimit whole_{};
  bool is_lowered_ = false;
};

bool is_out_of_resources(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS || error == ENOSPC;
}

class TcpStoreServer final : public StoreServer, public SessionHost, private Poller::Handler {
 public:
  TcpStoreServer(boost::asio::io_context& io, Listener listener, std::unique_ptr<Poller> poller,
                 const StoreServerOptions& options, Logger& logger)
      : io_(io),
        listener_(std::move(listener)),
        poller_(std::move(poller)),
        readiness_(io, poller_->fd()),
        options_(options),
        logger_(logger),
        strangers_(logger),
        newcomers_(options.handshake_timeout),
        handshake_timer_(io),
        accept_pause_(io),
        scratch_(kScratchBytes) {
    begin_generation();
  }
  ~TcpStoreServer() override { close(); }

  Result<void> start() {
    if (!poller_->add(listener_.fd.get(), EPOLLIN, *this))
      return os_error("cannot watch the listening socket", errno);
    await_readiness();
    return ok();
  }

  [[nodiscard]] Port port() const override { return listener_.port; }
  [[nodiscard]] std::size_t connection_count() const override { return sessions_.size(); }
  // Who has connected before this moment belongs to the generation that ends, accepted or not.
  void begin_generation() override {
    if (core_) accept_waiting(kLongestQueue);
    core_ = std::make_shared<StoreCore>(Limits{});
  }
  void set_peer_handler(std::string greeting, PeerHandler handler) override {
    peer_greeting_ = std::move(greeting);
    peer_handler_ = std::move(handler);
  }
  void set_make_room(std::function<bool()> make_room) override { make_room_ = std::move(make_room); }
  void set_address_filter(AddressFilter filter) override { address_filter_ = std::move(filter); }

  void close() override {
    if (!gate_.is_open()) return;
    gate_.close();
    poller_->remove(listener_.fd.get(), *this);
    listener_.fd.reset();
    handshake_timer_.close();
    accept_pause_.close();
    while (!sessions_.empty()) sessions_.begin()->second->close("");
    readiness_.release();  // ends the wait; the descriptor is the poller's
    if (!is_working_) forget_closed();
  }

  Poller& poller() override { return *poller_; }
  std::span<char> scratch() override { return scratch_; }
  void settle_later(Session& session) override { unsettled_.push_back(&session); }
  bool admits(const boost::asio::ip::address& address) override {
    return !address_filter_ || address_filter_(address);
  }

  void introduced(Session& session) override { newcomers_.leave(&session); }
  [[nodiscard]] std::string_view peer_greeting() const override { return peer_greeting_; }
  bool hand_over(UniqueFd& connection, std::string_view bytes_after) override {
    tcp::socket socket(io_);
    boost::system::error_code error;
    socket.assign(listener_.is_ipv6 ? tcp::v6() : tcp::v4(), connection.get(), error);
    if (error) return false;
    (void)connection.release();
    peer_handler_(std::move(socket), std::string(bytes_after));
    return true;
  }

  void closed(Session& session, std::string_view reason) override {
    if (reason.empty()) {
      logger_.debug("store: {} left", session.peer());
    } else {
      strangers_.warn(BootClock::now(),
                      fmt::format("store: closed the connection of {}: {}", session.peer(), reason));
    }
    newcomers_.leave(&session);
    const auto found = sessions_.find(&session);
    closed_.push_back(std::move(found->second));
    sessions_.erase(found);
  }

 private:
  void await_readiness() {
    readiness_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                          gate_.pass([this](const boost::system::error_code& error) {
                            if (error) return;
                            work();
                            if (gate_.is_open()) await_readiness();
                          }));
  }

  // Handles events as long as there are some, and a little longer.
  void work() {
    is_working_ = true;
    const TimePoint start = BootClock::now();
    TimePoint last_event = start;
    while (gate_.is_open()) {
      const bool was_busy = poller_->dispatch() > 0;
      if (was_busy) settle_all();
      const TimePoint now = BootClock::now();
      if (was_busy) last_event = now;
      if (now - start > kLongestTurn || now - last_event > kLinger) break;
      if (!was_busy) ::sched_yield();
    }
    is_working_ = false;
    forget_closed();
  }

  // Settling one session may wake others, or close it: the list can grow while it is worked through.
  void settle_all() {
    for (std::size_t i = 0; i < unsettled_.size(); ++i) unsettled_[i]->settle();
    unsettled_.clear();
  }

  void forget_closed() {
    settle_all();
    closed_.clear();
  }

  // The listening socket is ready.
  void on_ready(std::uint32_t) override { accept_waiting(kAcceptsInARow); }

  void accept_waiting(int most) {
    for (int i = 0; i < most; ++i) {
      UniqueFd connection = accept_one();
      if (connection) {
        welcome(std::move(connection));
      } else if (const int error = errno; is_out_of_resources(error)) {
        if (!is_awaited()) return;
        if (!make_room(error)) return pause_accepting(error);
      } else if (errno == EAGAIN) {
        return;
      }
    }
  }

  // Without a descriptor accept(2) fails whether there is a connection or not.
  [[nodiscard]] bool is_awaited() const {
    pollfd listening{.fd = listener_.fd.get(), .events = POLLIN, .revents = 0};
    return ::poll(&listening, 1, 0) != 0;
  }

  // The reserve is for everything else, also for what saying that there is no room may open.
  UniqueFd accept_one() {
    const DescriptorReserve reserve(options_.reserved_descriptors ? options_.reserved_descriptors() : 0);
    return accept_connection(listener_.fd.get());
  }

  void pause_accepting(int error) {
    strangers_.warn(BootClock::now(),
                    fmt::format("store: cannot accept a connection: {}; {} are open; trying again in {}",
                                std::strerror(error), sessions_.size(), format_duration(kAcceptPause)));
    poller_->modify(listener_.fd.get(), 0, *this);
    accept_pause_.set_after(kAcceptPause, [this] { poller_->modify(listener_.fd.get(), EPOLLIN, *this); });
  }

  // Who has said nothing yet gives way to who comes, the oldest first.
  bool make_room(int error) {
    const std::optional<Session*> oldest = newcomers_.pop_oldest(BootClock::now(), kTimeToSpeak);
    if (!oldest) return make_room_ && make_room_();
    (*oldest)->close(fmt::format("it has said nothing yet, and there is no room for another connection: {}",
                                 std::strerror(error)));
    return true;
  }

  void welcome(UniqueFd connection) {
    auto session = std::make_shared<Session>(*this, std::move(connection), core_, Limits{});
    if (!session->start()) return pause_accepting(errno);
    newcomers_.enter(session.get(), BootClock::now());
    Session* key = session.get();
    sessions_.emplace(key, std::move(session));
    if (newcomers_.size() == 1) await_introductions();
  }

  void await_introductions() {
    const std::optional<TimePoint> deadline = newcomers_.next_deadline();
    if (deadline) handshake_timer_.set_at(*deadline, [this] { dismiss_silent_newcomers(); });
  }

  void dismiss_silent_newcomers() {
    for (Session* session : newcomers_.pop_overdue(BootClock::now())) {
      session->close(
          fmt::format("it did not introduce itself within {}", format_duration(options_.handshake_timeout)));
    }
    forget_closed();
    await_introductions();
  }

  boost::asio::io_context& io_;
  Listener listener_;
  std::unique_ptr<Poller> poller_;
  boost::asio::posix::stream_descriptor readiness_;
  StoreServerOptions options_;
  Logger& logger_;
  StrangerLog strangers_;
  std::string peer_greeting_;
  PeerHandler peer_handler_;
  std::function<bool()> make_room_;
  AddressFilter address_filter_;
  std::shared_ptr<StoreCore> core_;
  std::unordered_map<Session*, std::shared_ptr<Session>> sessions_;
  std::vector<std::shared_ptr<Session>> closed_;  ///< events at hand may still refer to them
  std::vector<Session*> unsettled_;
  WaitingRoom<Session*> newcomers_;  ///< of sessions_
  Alarm handshake_timer_;
  Alarm accept_pause_;
  std::vector<char> scratch_;
  bool is_working_ = false;
  Gate gate_;
};

}  // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::open(boost::asio::io_context& io,
                                                       const StoreServerOptions& options, Logger& logger) {
  Result<Listener> listener =
      options.inherited_fd ? adopt_listener(*options.inherited_fd) : listen_on(options.at);
  if (!listener) return listener.error().with("store");
  Result<std::unique_ptr<Poller>> poller = Poller::open();
  if (!poller) return poller.error().with("store");
  auto server =
      std::make_unique<TcpStoreServer>(io, std::move(*listener), std::move(*poller), options, logger);
  if (const Result<void> started = server->start(); !started) return started.error().with("store");
  return std::unique_ptr<StoreServer>(std::move(server));
}

}  // namespace ddprun::store
