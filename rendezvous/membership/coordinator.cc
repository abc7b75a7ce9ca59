#include "rendezvous/membership/coordinator.h"

#include "rendezvous/base/alarm.h"
#include "rendezvous/base/format_duration.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/stranger_log.h"
#include "rendezvous/base/waiting_room.h"
#include "rendezvous/membership/attendance.h"
#include "rendezvous/membership/auth.h"
#include "rendezvous/membership/channel.h"
#include "rendezvous/membership/handshake.h"
#include "rendezvous/membership/looks.h"
#include "rendezvous/membership/own_addresses.h"
#include "rendezvous/store/server.h"

#include <boost/asio/ip/tcp.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace ddprun::membership {
namespace {

using boost::asio::ip::tcp;

constexpr auto kHandshakeTime = std::chrono::seconds(10);
// Who has not proven in this time who it is gives way when there is no room for another connection.
constexpr auto kTimeToSpeak = std::chrono::seconds(1);
// So that no order waits behind much of what `ddprun why` asked for.
constexpr std::size_t kLookWindow = 128 * 1024;

/// One connection, from its greeting until it is closed.
struct Peer {
  std::shared_ptr<Channel> channel;
  CoordinatorHandshake handshake;
  bool has_joined = false;                    ///< it is, or was, a node of the job
  bool is_leaving = false;                    ///< it has been refused, and may still read why
  bool knows_numbers = false;                 ///< LookKind::kNumbers
  std::deque<LookAnswer> to_read{};           ///< of its looks
  std::map<LookKind, std::uint64_t> looks{};  ///< its newest of each kind

  [[nodiscard]] const NodeFacts& node() const { return handshake.hello().node; }
  [[nodiscard]] bool is_control() const { return handshake.hello().is_control; }
};

class TcpCoordinator final : public Coordinator {
 public:
  TcpCoordinator(boost::asio::io_context& io, const CoordinatorOptions& options, Logger& logger)
      : options_(options),
        logger_(logger),
        strangers_(logger),
        timer_(io),
        guests_(kHandshakeTime),
        guests_timer_(io),
        job_(options.spec, options.timing, BootClock::now(), make_nonce()) {}
  ~TcpCoordinator() override { close(); }

  Result<void> open_port(boost::asio::io_context& io) {
    store::StoreServerOptions store_options;
    store_options.at = options_.at;
    store_options.reserved_descriptors = options_.reserved_descriptors;
    auto store = store::StoreServer::open(io, store_options, logger_);
    if (!store) return store.error();
    store_ = std::move(*store);
    store_->set_peer_handler(std::string(kGreeting), [this](tcp::socket socket, std::string bytes_after) {
      greet(std::move(socket), std::move(bytes_after));
    });
    store_->set_make_room([this] { return make_room(); });
    if (!options_.secret.empty()) {
      store_->set_address_filter(
          [this](const boost::asio::ip::address& address) { return is_member_address(address); });
    }
    if (options_.secret.empty() && is_reached_by_others(options_.at))
      logger_.warn("{}", no_secret_at(port(), options_.spec.run_id));
    schedule_tick();
    return ok();
  }

  void close() override {
    gate_.close();
    timer_.close();
    guests_timer_.close();
    if (store_) store_->close();
    for (auto& [connection, peer] : std::exchange(peers_, {})) peer.channel->close();
    strangers_.tell_left_out();
    members_.clear();
    on_done_ = nullptr;
  }

  [[nodiscard]] Port port() const override { return store_->port(); }
  [[nodiscard]] const Job& job() const override { return job_; }
  void end_for_all(const JobEnd& end) override { perform(job_.end_for_all(end, now())); }
  [[nodiscard]] bool is_done() const override {
    return job_.state() == JobPhase::kEnded && !job_.awaits_return(now()) &&
           std::none_of(peers_.begin(), peers_.end(),
                        [](const auto& peer) { return peer.second.has_joined; });
  }
  void end_at_once() override { perform(job_.end_at_once(now())); }
  [[nodiscard]] std::string awaited() const override {
    std::vector<std::string> names = job_.awaited();
    for (const auto& [connection, peer] : peers_) {
      if (peer.has_joined && peer.is_leaving)
        names.push_back(name_of(peer.node()));  // given up, and still here
    }
    return names.empty() ? "what is left of a lost node" : join_names(std::move(names));
  }
  void set_log_sink(LogSink sink) override { log_sink_ = std::move(sink); }
  void set_on_done(std::function<void()> on_done) override { on_done_ = std::move(on_done); }

 private:
  static TimePoint now() { return BootClock::now(); }

  // ---- connections

  void greet(tcp::socket socket, std::string bytes_after) {
    if (!gate_.is_open()) return;
    const ConnectionId connection(++connections_);
    auto channel = Channel::make(std::move(socket), std::move(bytes_after));
    const std::string& secret = options_.secret;
    peers_.emplace(connection, Peer{.channel = channel,
                                    .handshake = {options_.spec, secret, secret.empty() ? "" : make_nonce(),
                                                  channel->remote_address().to_string()}});
    guests_.enter(connection, now());
    if (guests_.size() == 1) await_guests();
    channel->start(
        gate_.pass([this, connection](const Message& message) { handle(connection, message); }),
        gate_.pass([this, connection](Loss loss, const std::string& why) { gone(connection, loss, why); }));
  }

  // Whoever is no member, or no longer, is here only for so long, whatever it says.
  void await_guests() {
    const std::optional<TimePoint> deadline = guests_.next_deadline();
    if (!deadline) return;
    guests_timer_.set_at(*deadline, [this] { dismiss_slow_guests(); });
  }

  void dismiss_slow_guests() {
    for (const ConnectionId connection : guests_.pop_overdue(now())) {
      if (peers_.at(connection).is_leaving) {
        close_peer(connection);
      } else {
        refuse(connection, fmt::format("the handshake took longer than {}", format_duration(kHandshakeTime)),
               true);
      }
    }
    check_done();
    await_guests();
  }

  bool make_room() {
    const std::optional<ConnectionId> oldest = guests_.pop_oldest(now(), kTimeToSpeak);
    if (!oldest) return false;
    strangers_.warn(now(),
                    fmt::format("closed the connection of {}: its handshake is not over, and there is no "
                                "room for another",
                                peers_.at(*oldest).channel->remote_address().to_string()));
    close_peer(*oldest);
    return true;
  }

  void close_peer(ConnectionId connection) {
    peers_.at(connection).channel->close();
    peers_.erase(connection);
  }

  void handle(ConnectionId connection, const Message& message) {
    const auto found = peers_.find(connection);
    if (found == peers_.end()) return;
    Peer& peer = found->second;
    if (const auto* lines = std::get_if<LogLines>(&message); lines != nullptr && peer.has_joined) {
      if (log_sink_) log_sink_(connection, name_of(peer.node()), *lines);
      return;
    }
    if (peer.is_leaving) return;
    if (!peer.handshake.is_admitted()) return shake_hands(connection, peer, message);
    if (const auto* drain = std::get_if<DrainRequest>(&message))
      return handle_drain(connection, peer, *drain);
    if (const auto* status = std::get_if<Status>(&message); status != nullptr && !peer.is_control())
      return handle_status(connection, peer, *status);
    if (const auto* look = std::get_if<LookRequest>(&message); look != nullptr && peer.has_joined)
      return handle_look(connection, peer, *look);
    if (const auto* seen = std::get_if<LookAnswer>(&message); seen != nullptr && peer.has_joined) {
      if (const auto forward = looks_.answered(connection, *seen)) pass_on(*forward, name_of(peer.node()));
      return;
    }
    refuse(connection, fmt::format("it sent \"{}\", which does not belong here", type_of(message)));
  }

  void shake_hands(ConnectionId connection, Peer& peer, const Message& message) {
    const CoordinatorHandshake::Step step = peer.handshake.handle(message);
    if (const auto* challenge = std::get_if<Challenge>(&step)) {
      peer.channel->send(*challenge);
    } else if (const auto* refused = std::get_if<Refused>(&step)) {
      refuse(connection, refused->reason);
    } else {
      admit(connection, peer);
    }
  }

  void handle_drain(ConnectionId connection, Peer& peer, const DrainRequest& drain) {
    if (peer.is_control()) {
      if (const auto why_not = job_.why_not_drained(drain.node)) return refuse(connection, *why_not);
      peer.channel->send(Order{.text = drain.node
                                           ? fmt::format("node rank {} is being drained", drain.node->value())
                                           : std::string("the job is being drained")});
    }
    perform(job_.drain(drain.node, now()));
  }

  void admit(ConnectionId connection, Peer& peer) {
    if (!peer.is_control() && members_.contains(peer.node().id))
      return refuse(connection, "another connection has joined under its number");
    if (!peer.is_control() && !peer.node().replaces && job_.state() == JobPhase::kEnded)
      return refuse(connection, fmt::format("job {} has ended", options_.spec.run_id), true);
    peer.channel->send(Welcome{.timing = options_.timing, .knows_numbers = true});
  }

  // A hello may have lain here for long, and who sent it may have given up and come again, or be gone. The
  // first status answers the welcome: whoever sends it is there, and knows that it was let in.
  void handle_status(ConnectionId connection, Peer& peer, Status status) {
    const MemberId id = peer.node().id;
    // What the program knows is no state of the node.
    if (std::exchange(status.knows_numbers, false)) peer.knows_numbers = true;
    if (!peer.has_joined) {
      if (members_.contains(id)) return refuse(connection, "another connection has joined under its number");
      guests_.leave(connection);
      members_[id] = connection;
      peer.has_joined = true;
      if (peer.node().replaces) close_replaced(*peer.node().replaces);
      perform(job_.joined(peer.node(), now(), status));
      if (peer.is_leaving) return;
    }
    perform(job_.status(id, status, now()));
  }

  // ---- looks of `ddprun why` and `ddprun ps --watch`

  void handle_look(ConnectionId asker, Peer& peer, const LookRequest& look) {
    const auto [older, is_first] = peer.looks.try_emplace(look.kind, look.number);
    if (!is_first) {
      std::erase_if(peer.to_read,
                    [number = older->second](const auto& part) { return part.number == number; });
      older->second = look.number;
    }
    peer.channel->set_on_empty(gate_.pass([this, asker] { pump_look(asker); }));
    std::vector<ConnectionId> nodes;
    for (const auto& [connection, other] : peers_) {
      if (connection == asker || !other.has_joined || other.is_leaving) continue;
      const bool is_older = look.kind == LookKind::kNumbers && !other.knows_numbers;
      if (!is_older) nodes.push_back(connection);
      peer.to_read.push_back({.number = look.number,
                              .from = connection.value(),
                              .node = name_of(other.node()),
                              .is_last = is_older,
                              .is_older = is_older});
    }
    const LookRequest request = looks_.begin(asker, look.number, nodes, look.kind);
    for (const ConnectionId node : nodes) peers_.at(node).channel->send(request);
    peer.to_read.push_back({.number = look.number, .is_last = true});  // these are all
    pump_look(asker);
  }

  void pass_on(Looks::Forward forward, const std::string& node) {
    const auto found = peers_.find(forward.to);
    if (found == peers_.end()) return;
    forward.answer.node = node;
    found->second.to_read.push_back(std::move(forward.answer));
    pump_look(forward.to);
  }

  void pump_look(ConnectionId asker) {
    const auto found = peers_.find(asker);
    if (found == peers_.end()) return;
    Peer& peer = found->second;
    while (!peer.to_read.empty() && peer.channel->can_send() && peer.channel->backlog_bytes() < kLookWindow) {
      peer.channel->send(peer.to_read.front());
      peer.to_read.pop_front();
    }
  }

  // Nobody reads there any more, and its end may never come: a proxy can hold it open. What was said before
  // counts.
  void close_replaced(MemberId who) {
    const auto found = members_.find(who);
    if (found == members_.end()) return;
    const ConnectionId connection = found->second;
    const auto channel = peers_.at(connection).channel;
    channel->read_out_and_close();
    peers_.erase(connection);
    members_.erase(who);
  }

  void refuse(ConnectionId connection, const std::string& reason, bool may_return = false) {
    const auto found = peers_.find(connection);
    if (found == peers_.end() || found->second.is_leaving) return;
    Peer& peer = found->second;
    strangers_.warn(now(), fmt::format("refused {}: {}", peer.channel->remote_address().to_string(), reason));
    peer.channel->send(Refused{reason, may_return});
    peer.channel->close_after_sending();
    peer.is_leaving = true;
    guests_.enter(connection, now());
    if (guests_.size() == 1) await_guests();
    const auto member = members_.find(peer.node().id);
    if (member != members_.end() && member->second == connection) members_.erase(member);
  }

  void gone(ConnectionId connection, Loss loss, const std::string& why) {
    const auto found = peers_.find(connection);
    if (found == peers_.end()) return;
    const Peer peer = std::move(found->second);
    guests_.leave(connection);
    peers_.erase(found);
    for (const Looks::Forward& forward : looks_.gone(connection)) pass_on(forward, name_of(peer.node()));
    if (peer.is_leaving) return check_done();
    if (peer.handshake.awaits_proof()) {
      strangers_.warn(now(),
                      fmt::format("{} left when it was asked to prove the job secret: it has another one "
                                  "than the coordinator; give all nodes the same --rdzv-secret-file (or "
                                  "DDPRUN_SECRET)",
                                  name_of(peer.node())));
    }
    if (!peer.has_joined) return;
    logger_.debug("{} is gone: {}", name_of(peer.node()), why);
    members_.erase(peer.node().id);
    perform(job_.lost(peer.node().id, loss, now()));
  }

  [[nodiscard]] bool is_member_address(const boost::asio::ip::address& address) const {
    return std::any_of(peers_.begin(), peers_.end(), [&](const auto& entry) {
      return entry.second.has_joined && !entry.second.is_leaving &&
             entry.second.channel->remote_address() == address;
    });
  }

  // ---- the job's actions

  void perform(const JobActions& actions) {
    for (const JobAction& action : actions) {
      std::visit([this](const auto& each) { act(each); }, action);
    }
    check_done();
  }
  void act(const SendOrder& send) {
    const auto found = members_.find(send.to);
    if (found != members_.end()) peers_.at(found->second).channel->send(send.order);
  }
  void act(const Expel& parted) {
    const auto found = members_.find(parted.who);
    if (found != members_.end()) refuse(found->second, parted.why, parted.may_return);
  }
  void act(const BeginGeneration&) { store_->begin_generation(); }
  void act(const Note& note) { logger_.info("{}", note.text); }

  void check_done() {
    if (!is_done() || !on_done_) return;
    std::exchange(on_done_, nullptr)();
  }

  // ---- time

  void schedule_tick() {
    timer_.set_at(job_.next_wake(now()), [this] {
      perform(job_.tick(now()));
      schedule_tick();
    });
  }

  CoordinatorOptions options_;
  Logger& logger_;
  StrangerLog strangers_;
  Alarm timer_;
  std::map<ConnectionId, Peer> peers_;  ///< every connection that was greeted, until it is closed
  WaitingRoom<ConnectionId> guests_;    ///< of peers_, those that are no members, or no longer
  Alarm guests_timer_;
  Job job_;
  Looks looks_;
  std::unique_ptr<store::StoreServer> store_;
  std::map<MemberId, ConnectionId> members_;
  std::uint64_t connections_ = 0;
  std::function<void()> on_done_;
  LogSink log_sink_;
  Gate gate_;
};

}  // namespace

Result<std::unique_ptr<Coordinator>> Coordinator::open(boost::asio::io_context& io,
                                                       const CoordinatorOptions& options, Logger& logger) {
  auto coordinator = std::make_unique<TcpCoordinator>(io, options, logger);
  if (Result<void> opened = coordinator->open_port(io); !opened) return opened.error();
  return std::unique_ptr<Coordinator>(std::move(coordinator));
}

}  // namespace ddprun::membership
