#include "launcher/doctor/hosts_meeting.h"

#include "launcher/doctor/talk.h"
#include "rendezvous/base/alarm.h"
#include "rendezvous/base/format_duration.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/print.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/base/waiting_room.h"
#include "rendezvous/membership/auth.h"
#include "rendezvous/membership/channel.h"
#include "rendezvous/membership/handshake.h"
#include "rendezvous/store/server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string.h>  // strverscmp, which <cstring> does not promise
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

using boost::asio::ip::tcp;
using doctor_talk::Words;

constexpr auto kIntroduction = std::chrono::seconds(10);
constexpr auto kTimeOfGuests = std::chrono::seconds(1);
constexpr auto kStepTime = std::chrono::seconds(12);
constexpr auto kNoticeAfter = std::chrono::seconds(2);
constexpr int kClockReadings = 8;
constexpr std::size_t kMostTurnedAway = 8;
constexpr std::chrono::milliseconds kStreamsInAll{10'000};
constexpr std::chrono::milliseconds kShortestStream{20};
constexpr std::chrono::milliseconds kLongestStream{250};

/// One connection, from its greeting until it is closed.
struct Peer {
  std::shared_ptr<membership::Channel> channel;
  membership::CoordinatorHandshake handshake;
  bool is_leaving = false;  ///< it has been told all that it will be told
  SeenHost host{};
  doctor_talk::ProbePlace place{};
  int clock_readings = 0;
  TimePoint clock_asked_at{};
  std::chrono::system_clock::time_point clock_asked{};
  double quickest_reading = 0;
  bool is_here = false;    ///< on the machine where they meet, by its loopback
  bool is_seated = false;  ///< it is one of the hosts
};

std::chrono::milliseconds stream_time(std::size_t hosts) {
  return std::clamp(kStreamsInAll / static_cast<int>(std::max<std::size_t>(hosts, 2) - 1), kShortestStream,
                    kLongestStream);
}

/// As a job's nodes are ranked.
bool comes_before(const SeenHost& a, const SeenHost& b) {
  constexpr int kNone = 1 << 30;
  if (a.node_rank != b.node_rank) return a.node_rank.value_or(kNone) < b.node_rank.value_or(kNone);
  const int by_name = ::strverscmp(a.sheet.host.c_str(), b.sheet.host.c_str());
  return by_name != 0 ? by_name < 0 : a.address < b.address;
}

std::string name_of(const SeenHost& host) { return fmt::format("{} ({})", host.sheet.host, host.address); }

class TcpHostsMeeting final : public HostsMeeting {
 public:
  TcpHostsMeeting(boost::asio::io_context& io, MeetingOptions options, Logger& logger)
      : io_(io),
        options_(std::move(options)),
        logger_(logger),
        guests_(kIntroduction),
        guests_timer_(io),
        timer_(io),
        notice_(io) {
    spec_.run_id = doctor_talk::kRunId;
    spec_.min_nodes = spec_.max_nodes = options_.hosts;
    meeting_.endpoint = options_.endpoint;
    meeting_.wanted = options_.hosts;
    meeting_.waited = options_.timeout;
  }
  ~TcpHostsMeeting() override { close(); }

  Result<void> open_port() {
    store::StoreServerOptions store;
    store.at = options_.at;
    store.reserved_descriptors = [] { return store::kServersOwnDescriptors; };
    auto server = store::StoreServer::open(io_, store, logger_);
    if (!server) return server.error();
    server_ = std::move(*server);
    server_->set_address_filter([](const boost::asio::ip::address&) { return false; });  // no store
    server_->set_make_room([this] { return make_room(); });
    server_->set_peer_handler(
        std::string(membership::kGreeting),
        [this](tcp::socket socket, std::string bytes) { greet(std::move(socket), std::move(bytes)); });
    began_ = now();
    timer_.set_after(options_.timeout, [this] { begin(); });
    notice_.set_after(kNoticeAfter, [this] { say_who_is_awaited(); });
    return ok();
  }

  void set_on_over(std::function<void()> on_over) override { on_over_ = std::move(on_over); }

 private:
  using PeerId = std::uint64_t;
  static TimePoint now() { return BootClock::now(); }

  void close() {
    gate_.close();
    guests_timer_.close();
    timer_.close();
    notice_.close();
    if (server_) server_->close();
    for (auto& [id, peer] : std::exchange(peers_, {})) peer.channel->close();
  }

  // ---- who comes

  void greet(tcp::socket socket, std::string bytes_after) {
    const PeerId id = ++last_id_;
    auto channel = membership::Channel::make(std::move(socket), std::move(bytes_after));
    const std::string& secret = options_.secret;
    peers_.emplace(id, Peer{.channel = channel,
                            .handshake = {spec_, secret, secret.empty() ? "" : membership::make_nonce(),
                                          channel->remote_address().to_string()}});
    guests_.enter(id, now());
    if (guests_.size() == 1) await_guests();
    channel->start(gate_.pass([this, id](const membership::Message& message) { handle(id, message); }),
                   gate_.pass([this, id](membership::Loss, const std::string& why) { gone(id, why); }));
  }

  void await_guests() {
    const std::optional<TimePoint> deadline = guests_.next_deadline();
    if (deadline) guests_timer_.set_at(*deadline, [this] { dismiss_slow_guests(); });
  }

  void dismiss_slow_guests() {
    for (const PeerId id : guests_.pop_overdue(now())) drop(id);
    await_guests();
  }

  bool make_room() {
    const std::optional<PeerId> oldest = guests_.pop_oldest(now(), kTimeOfGuests);
    if (oldest) drop(*oldest);
    return oldest.has_value();
  }

  void drop(PeerId id) {
    const auto found = peers_.find(id);
    if (found == peers_.end()) return;
    found->second.channel->close();
    peers_.erase(found);
    guests_.leave(id);
  }

  void turn_away(PeerId id, const std::string& why) {
    Peer& peer = peers_.at(id);
    remember(why);
    say_goodbye(id, peer, membership::Refused{.reason = why});
  }

  void remember(const std::string& why) {
    if (meeting_.turned_away.size() < kMostTurnedAway)
      meeting_.turned_away.push_back(ddprun::printable(why, membership::kMaxSentenceBytes));
  }

  void say_goodbye(PeerId id, Peer& peer, const membership::Message& last) {
    peer.is_leaving = true;
    peer.channel->send(last);
    peer.channel->set_on_farewell_over(gate_.pass([this, id] { forget(id); }));
    peer.channel->close_after_sending();
  }

  void forget(PeerId id) {
    guests_.leave(id);
    peers_.erase(id);
    if (is_over_ && peers_.empty()) go_home();
  }

  void go_home() {
    close();
    if (on_over_) std::exchange(on_over_, nullptr)();
  }

  void gone(PeerId id, const std::string& why) {
    const auto found = peers_.find(id);
    if (found == peers_.end()) return;
    Peer& peer = found->second;
    const bool was_seated = peer.is_seated && !peer.is_leaving;
    if (was_seated && has_begun_) return lose(id, why);
    if (was_seated) remember(fmt::format("{} came and left again: {}", name_of(peer.host), why));
    forget(id);
  }

  // ---- what they say

  void handle(PeerId id, const membership::Message& message) {
    const auto found = peers_.find(id);
    if (found == peers_.end() || found->second.is_leaving) return;
    Peer& peer = found->second;
    if (!peer.handshake.is_admitted()) return shake_hands(id, peer, message);
    const auto* said = std::get_if<membership::DoctorWords>(&message);
    const Result<Words> words = said == nullptr
                                    ? Result<Words>(Error(ErrorCode::kCorrupt, "it says what no doctor says"))
                                    : doctor_talk::parse(*said);
    if (!words) return turn_away_or_lose(id, peer, words.error().message());
    if (const auto* sheet = std::get_if<doctor_talk::Sheet>(&*words);
        sheet != nullptr && peer.place.token.empty())
      return introduce(peer, *sheet);
    if (const auto* time = std::get_if<doctor_talk::Time>(&*words);
        time != nullptr && is_asked_for_time(peer))
      return read_clock(id, peer, *time);
    if (const auto* probed = std::get_if<doctor_talk::Probed>(&*words);
        probed != nullptr && awaited_.contains(id))
      return note_probed(id, *probed);
    turn_away_or_lose(id, peer, "it says something out of turn");
  }

  void turn_away_or_lose(PeerId id, Peer& peer, const std::string& why) {
    if (peer.is_seated && has_begun_) return lose(id, why);
    const std::string who =
        fmt::format("{} ({})", peer.handshake.hello().node.host, peer.channel->remote_address().to_string());
    peer.is_seated = false;
    turn_away(id, fmt::format("{}: {}", who, why));
  }

  void shake_hands(PeerId id, Peer& peer, const membership::Message& message) {
    const membership::CoordinatorHandshake::Step step = peer.handshake.handle(message);
    if (const auto* challenge = std::get_if<membership::Challenge>(&step))
      return peer.channel->send(*challenge);
    if (const auto* refused = std::get_if<membership::Refused>(&step)) return turn_away(id, refused->reason);
    peer.channel->send(membership::Welcome{});
  }

  void introduce(Peer& peer, const doctor_talk::Sheet& said) {
    peer.place = said.place;
    peer.host.sheet = said.sheet;
    const boost::asio::ip::address seen = peer.channel->remote_address();
    peer.is_here = seen.is_loopback();
    peer.host.address = peer.is_here ? options_.own_address : seen.to_string();
    const std::optional<NodeRank> pinned = peer.handshake.hello().node.pinned;
    if (pinned) peer.host.node_rank = pinned->value();
    ask_for_time(peer);
  }

  // ---- their clocks

  [[nodiscard]] static bool is_asked_for_time(const Peer& peer) {
    return !peer.place.token.empty() && peer.clock_readings < kClockReadings;
  }

  void ask_for_time(Peer& peer) {
    const auto silence = std::chrono::ceil<std::chrono::milliseconds>(
        std::max<Duration>(Duration::zero(), options_.timeout - (now() - began_)) + kStepTime);
    peer.clock_asked_at = now();
    peer.clock_asked = std::chrono::system_clock::now();
    peer.channel->send(doctor_talk::encode(doctor_talk::TellTime{silence}));
  }

  // The quickest answer says most.
  void read_clock(PeerId id, Peer& peer, const doctor_talk::Time& time) {
    const double trip = to_seconds(now() - peer.clock_asked_at);
    const double asked = std::chrono::duration<double>(peer.clock_asked.time_since_epoch()).count();
    if (peer.clock_readings == 0 || trip < peer.quickest_reading) {
      peer.quickest_reading = trip;
      peer.host.clock_ahead = static_cast<double>(time.unix_ns) * 1e-9 - (asked + trip / 2);
      peer.host.clock_doubt = trip / 2;
    }
    if (++peer.clock_readings < kClockReadings) return ask_for_time(peer);
    if (!peer.is_here) peer.host.round_trip = peer.quickest_reading;
    seat(id, peer);
  }

  void seat(PeerId id, Peer& peer) {
    if (has_begun_)
      return turn_away(
          id, fmt::format("{} came too late: the others are being examined; start all of them within "
                          "--timeout",
                          name_of(peer.host)));
    seat_all();
    if (const auto why = why_not_seated(meeting_, peer.host)) return turn_away(id, *why);
    guests_.leave(id);
    peer.is_seated = true;
    seat_all();
    if (static_cast<int>(seated_.size()) == meeting_.wanted) begin();
  }

  // Whoever is here now, in the order of a job's nodes.
  void seat_all() {
    seated_.clear();
    meeting_.hosts.clear();
    for (const auto& [id, peer] : peers_) {
      if (peer.is_seated && !peer.is_leaving) seated_.push_back(id);
    }
    std::stable_sort(seated_.begin(), seated_.end(), [this](PeerId a, PeerId b) {
      return comes_before(peers_.at(a).host, peers_.at(b).host);
    });
    for (const PeerId id : seated_) meeting_.hosts.push_back(peers_.at(id).host);
  }

  void say_who_is_awaited() {
    seat_all();
    std::vector<std::string> names;
    for (const SeenHost& host : meeting_.hosts) names.push_back(name_of(host));
    print_all(
        STDERR_FILENO,
        fmt::format("ddprun doctor: {} of {} hosts came: {}; waiting up to {} for the rest\n", names.size(),
                    meeting_.wanted, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
                    format_duration(options_.timeout - (now() - began_))));
  }

  // ---- their probes

  void begin() {
    has_begun_ = true;
    timer_.cancel();
    notice_.close();
    seat_all();
    step_ = 0;
    next_step();
  }

  void next_step() {
    if (++step_ >= seated_.size()) return end();
    for (std::size_t from = 0; from < seated_.size(); ++from) ask_for_probe(from);
    if (awaited_.empty()) return next_step();
    timer_.set_after(kStepTime, [this] { lose_silent_ones(); });
  }

  void ask_for_probe(std::size_t from) {
    const std::size_t to = probed_by(from, step_, seated_.size());
    const auto prober = peers_.find(seated_[from]);
    const auto probed = peers_.find(seated_[to]);
    if (prober == peers_.end() || probed == peers_.end()) return;
    const Peer& to_whom = probed->second;
    const doctor_talk::ProbeOne ask{.address = to_whom.is_here ? std::string() : to_whom.host.address,
                                    .place = to_whom.place,
                                    .stream = stream_time(seated_.size())};
    awaited_.insert(seated_[from]);
    prober->second.channel->send(doctor_talk::encode(ask));
  }

  void note_probed(PeerId id, const doctor_talk::Probed& probed) {
    const std::size_t from = index_of(id);
    meeting_.probes.push_back({.from = from,
                               .to = probed_by(from, step_, seated_.size()),
                               .error = probed.error,
                               .round_trip = probed.round_trip,
                               .bits_per_second = probed.bits_per_second});
    settle(id);
  }

  void settle(PeerId id) {
    if (awaited_.erase(id) > 0 && awaited_.empty()) next_step();
  }

  void lose_silent_ones() {
    const std::set<PeerId> silent = awaited_;
    for (const PeerId id : silent)
      lose(id, fmt::format("it said nothing for {}", format_duration(kStepTime)));
  }

  void lose(PeerId id, const std::string& why) {
    meeting_.hosts[index_of(id)].lost = ddprun::printable(why, membership::kMaxNameBytes);
    drop(id);
    settle(id);
  }

  [[nodiscard]] std::size_t index_of(PeerId id) const {
    return static_cast<std::size_t>(std::find(seated_.begin(), seated_.end(), id) - seated_.begin());
  }

  // ---- the page

  void end() {
    timer_.close();
    is_over_ = true;
    server_->close();
    const std::vector<Finding> findings = examine_hosts(meeting_);
    const std::string page = render_hosts(meeting_, findings);
    std::vector<PeerId> all;
    for (const auto& [id, peer] : peers_) all.push_back(id);
    for (const PeerId id : all) {
      Peer& peer = peers_.at(id);
      if (peer.is_leaving) continue;
      if (!peer.is_seated) {
        turn_away(id, "the page was made before it had said who it is; start all of them within --timeout");
        continue;
      }
      std::vector<doctor_talk::PagePart> parts = doctor_talk::parts_of(page, is_any_wrong(findings));
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) peer.channel->send(doctor_talk::encode(parts[i]));
      say_goodbye(id, peer, doctor_talk::encode(parts.back()));
    }
    if (peers_.empty()) go_home();
  }

  boost::asio::io_context& io_;
  MeetingOptions options_;
  Logger& logger_;
  membership::JobSpec spec_;
  MeetingFacts meeting_;
  std::unique_ptr<store::StoreServer> server_;
  std::map<PeerId, Peer> peers_;
  PeerId last_id_ = 0;
  WaitingRoom<PeerId> guests_;
  Alarm guests_timer_;
  Alarm timer_;  ///< of the meeting, then of a step
  Alarm notice_;
  TimePoint began_{};
  bool has_begun_ = false;
  bool is_over_ = false;
  std::size_t step_ = 0;
  std::vector<PeerId> seated_;  ///< in the order of meeting_.hosts, once it has begun
  std::set<PeerId> awaited_;    ///< who probes
  std::function<void()> on_over_;
  Gate gate_;
};

}  // namespace

std::optional<std::string> why_not_seated(const MeetingFacts& meeting, const SeenHost& host) {
  if (static_cast<int>(meeting.hosts.size()) >= meeting.wanted) {
    return fmt::format("{} hosts are here without {}: --nnodes has to count all of them", meeting.wanted,
                       name_of(host));
  }
  if (!host.node_rank) return std::nullopt;
  if (*host.node_rank >= meeting.wanted)
    return fmt::format("{} has --node-rank {}, and {} hosts have 0 to {}", name_of(host), *host.node_rank,
                       meeting.wanted, meeting.wanted - 1);
  for (const SeenHost& other : meeting.hosts) {
    if (other.node_rank == host.node_rank) {
      return fmt::format("{} and {} both have --node-rank {}: give each host its own, or none",
                         name_of(other), name_of(host), *host.node_rank);
    }
  }
  return std::nullopt;
}

Result<std::unique_ptr<HostsMeeting>> HostsMeeting::open(boost::asio::io_context& io, MeetingOptions options,
                                                         Logger& logger) {
  auto meeting = std::make_unique<TcpHostsMeeting>(io, std::move(options), logger);
  if (const Result<void> opened = meeting->open_port(); !opened) return opened.error();
  return std::unique_ptr<HostsMeeting>(std::move(meeting));
}

}  // namespace ddprun::launcher
