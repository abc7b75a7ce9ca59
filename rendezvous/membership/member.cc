#include "rendezvous/membership/member.h"

#include "rendezvous/base/alarm.h"
#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/format_duration.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/membership/auth.h"
#include "rendezvous/membership/channel.h"
#include "rendezvous/membership/connector.h"
#include "rendezvous/membership/handshake.h"
#include "rendezvous/membership/log_funnel.h"
#include "rendezvous/membership/member_core.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <random>
#include <utility>

namespace ddprun::membership {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(50);
constexpr Duration kLongestPause = std::chrono::seconds(1);
constexpr Duration kAnswerTime = std::chrono::milliseconds(2500);
constexpr std::size_t kLinesWindow = 128 * 1024;
constexpr std::size_t kMostLookBytes = 4 * 1024 * 1024;
constexpr auto kPatienceForLines = std::chrono::seconds(10);
constexpr Duration kSaySomethingAfter = std::chrono::milliseconds(1200);

MemberId draw_id() {
  std::random_device kernel;
  return MemberId((std::uint64_t{kernel()} << 32U | kernel()) | 1U);
}

class TcpMember final : public Member {
 public:
  TcpMember(boost::asio::io_context& io, MemberOptions options, Listener& listener)
      : io_(io), options_(std::move(options)), listener_(&listener), timer_(io), core_timer_(io) {}
  ~TcpMember() override { close(); }

  void start() { seek(Deadline::after(now(), options_.join_timeout)); }

  void close() override {
    pump_lines(std::numeric_limits<std::size_t>::max());
    give_lines_back();
    listener_ = nullptr;
    gate_.close();
    timer_.close();
    core_timer_.close();
    connector_.reset();
    if (!channel_) return;
    if (is_joined_) return say_farewell(channel_);
    channel_->close();
  }

  bool await_farewell(std::function<void()> on_over) override {
    if (!farewell_ || !farewell_->is_open()) return false;
    farewell_->set_on_farewell_over(farewell_gate_.pass(std::move(on_over)));
    return true;
  }
  void cut_farewell() override {
    if (farewell_) farewell_->close();
  }
  [[nodiscard]] std::size_t untaken_bytes() override {
    if (farewell_) funnel_.arrived(farewell_->taken_bytes());
    return funnel_.bytes_lost() + funnel_.bytes_under_way();
  }

  void workers_failed(const NodeFailure& failure) override {
    if (core_) perform(core_->workers_failed(failure, now()));
  }
  void workers_succeeded() override {
    if (core_) perform(core_->workers_succeeded(now()));
  }
  void workers_stopped() override {
    if (core_) perform(core_->workers_stopped(now()));
  }
  void leave(int signal) override {
    leaving_signal_ = signal;
    if (core_ && is_joined_) return perform(core_->leave(signal, now()));
    if (core_ && core_->has_workers()) return;  // cut off: it ends when they are gone
    end_for_signal();
  }
  void send_lines(bool is_stderr, std::string_view block) override {
    funnel_.push(is_stderr, block);
    pump_lines(kLinesWindow);
  }
  bool drain() override {
    if (!is_joined_) return false;
    channel_->send(DrainRequest{});
    return true;
  }
  Asked ask_to_look(std::uint64_t number, LookKind kind) override {
    if (!is_joined_) return Asked::kNobody;
    if (kind == LookKind::kNumbers && !coordinator_knows_numbers_) return Asked::kTooOldHere;
    channel_->send(LookRequest{.number = number, .kind = kind});
    return Asked::kAll;
  }
  void answer_look(LookAnswer answer) override {
    if (!is_joined_) return;
    // Over a slow line questions come faster than answers go: the next ones say nothing.
    if (look_bytes_ > kMostLookBytes) {
      if (!answer.is_last) return;
      answer.text.clear();
    }
    look_bytes_ += answer.text.size();
    look_answers_.push_back(std::move(answer));
    pump_lines(kLinesWindow);
  }

 private:
  static TimePoint now() { return BootClock::now(); }
  [[nodiscard]] std::string endpoint() const { return to_string(Endpoint{options_.host, options_.port}); }

  // ---- lines for its console

  // Little at a time, so that a status never waits behind much output.
  void pump_lines(std::size_t window) {
    while (!look_answers_.empty() && channel_ && channel_->can_send() && channel_->backlog_bytes() < window) {
      channel_->send(look_answers_.front());
      look_bytes_ -= look_answers_.front().text.size();
      look_answers_.pop_front();
    }
    while (is_joined_ && channel_ && channel_->can_send() && channel_->backlog_bytes() < window) {
      const std::optional<LogLines> lines = funnel_.pop();
      if (!lines) return;
      channel_->send(*lines);
      funnel_.sent(*lines, channel_->given_bytes());
      funnel_.arrived(channel_->taken_bytes());
      has_sent_lines_ = true;
    }
  }

  // At once: what is posted does not run any more when this is closed.
  void give_lines_back() {
    while (const std::optional<LogLines> lines = funnel_.pop()) {
      if (listener_ != nullptr) listener_->lines_back(*lines);
    }
  }

  // ---- finding the coordinator

  void seek(Deadline deadline) {
    deadline_ = deadline;
    seeking_since_ = now();
    pause_ = kFirstPause;
    has_said_ = false;
    attempts_ = 0;
    try_once();
  }

  void try_once() {
    ++attempts_;
    connector_ = std::make_unique<Connector>(io_, options_.host, options_.port, options_.also_try);
    connector_->start([this](std::optional<boost::asio::ip::tcp::socket> socket, const std::string& tried) {
      if (socket) {
        shake_hands(std::move(*socket));
      } else {
        try_again(tried);
      }
    });
  }

  void try_again(const std::string& tried) {
    // That was so when this node was started; the coordinator has been there since.
    const std::string job =
        options_.why_not_here.empty() || admitted_as_
            ? fmt::format("is ddprun running there with the same endpoint and --rdzv-id {}?",
                          options_.spec.run_id)
            : fmt::format("that address is this node's own, but here: {}", options_.why_not_here);
    if (deadline_.is_expired(now())) {
      const std::string nobody = fmt::format("no coordinator at {} within {} ({} attempts): {}", endpoint(),
                                             format_duration(now() - seeking_since_), attempts_, tried);
      if (core_ && core_->why_given_up()) {
        return fail(
            {ErrorCode::kPeerLost, fmt::format("{}; its workers were ended, and the others gave it up; {}",
                                               *core_->why_given_up(), nobody)});
      }
      return fail({ErrorCode::kUnavailable, fmt::format("rendezvous: {}; {}", nobody, job)});
    }
    if (!has_said_ && now() - seeking_since_ >= kSaySomethingAfter) {
      has_said_ = true;
      hear(
          Waiting{fmt::format("no coordinator at {} yet: {}; {}{} Trying for {} more", endpoint(), tried, job,
                              job.ends_with('?') ? "" : ".", format_duration(deadline_.remaining(now())))});
    }
    timer_.set_after(std::min(pause_, deadline_.remaining(now())), [this] { try_once(); });
    pause_ = std::min(2 * pause_, kLongestPause);
  }

  void shake_hands(boost::asio::ip::tcp::socket socket) {
    connector_.reset();
    node_ = options_.node;
    node_.id = draw_id();
    node_.replaces = admitted_as_;
    if (core_) {
      node_.last_generation = core_->seen_generation();
      node_.cut_off = core_->why_cut_off();
      node_.succeeded = core_->success();
    }
    node_.restarts_used = restarts_used_;
    handshake_.emplace(Hello{.run_id = options_.spec.run_id,
                             .min_nodes = options_.spec.min_nodes,
                             .max_nodes = options_.spec.max_nodes,
                             .node = node_,
                             .nonce = make_nonce()},
                       options_.secret);
    channel_ = Channel::make(std::move(socket), {});
    channel_->start(gate_.pass([this, id = node_.id](const Message& message) {
      if (node_.id == id) handle(message);
    }),
                    gate_.pass([this, id = node_.id](Loss, const std::string& why) {
                      if (node_.id == id) disconnected(why);
                    }));
    channel_->send_bytes(handshake_->first_bytes());
    timer_.set_after(kAnswerTime, [this] { no_answer(); });
  }

  // A coordinator that stands still (SIGSTOP, a machine without memory) says as little as a stranger.
  void no_answer() {
    close_channel();
    try_again(
        "it does not answer an agent's hello: its ddprun stands still, or another program (torchrun?) uses "
        "this port");
  }

  void handle(const Message& message) {
    if (is_joined_) {
      if (const auto* refused = std::get_if<Refused>(&message)) return handle_refusal(*refused);
      if (const auto* order = std::get_if<Order>(&message)) return perform(core_->order(*order, now()));
      if (const auto* look = std::get_if<LookRequest>(&message))
        return tell([look = *look](Listener& listener) { listener.look_wanted(look); });
      if (const auto* seen = std::get_if<LookAnswer>(&message))
        return tell([seen = *seen](Listener& listener) { listener.look_answered(seen); });
      return;
    }
    const AgentHandshake::Step step = handshake_->handle(message);
    std::visit([this](const auto& each) { go_on(each); }, step);
  }

  void go_on(const Proof& proof) { channel_->send(proof); }
  void go_on(const Welcome& welcome) { handle_welcome(welcome); }
  void go_on(const Refused& refused) { handle_refusal(refused); }
  void go_on(const Error& error) {
    fail({error.code(), fmt::format("rendezvous: the coordinator at {} {}", endpoint(), error.message())});
  }

  void handle_welcome(const Welcome& welcome) {
    timer_.cancel();
    is_joined_ = true;
    coordinator_knows_numbers_ = welcome.knows_numbers;
    has_sent_status_ = false;
    admitted_as_ = node_.id;
    channel_->set_on_empty(gate_.pass([this, id = node_.id] {
      if (node_.id == id) pump_lines(kLinesWindow);
    }));
    if (!core_) core_.emplace(welcome.timing, now());
    perform(core_->connected(now()));
    if (leaving_signal_ != 0) perform(core_->leave(leaving_signal_, now()));
  }

  void handle_refusal(const Refused& refused) {
    timer_.cancel();
    const bool may_return = refused.may_return || (core_ && core_->has_workers());
    if (is_joined_ && may_return) {
      close_channel();
      return perform(core_->given_up("the coordinator says: " + refused.reason, now()));
    }
    close_channel();
    if (refused.may_return) return try_again(refused.reason);
    fail({ErrorCode::kUsage, fmt::format("rendezvous: the coordinator at {} refused this node: {}",
                                         endpoint(), refused.reason)});
  }

  void disconnected(const std::string& why) {
    timer_.cancel();
    if (!is_joined_) return try_again("the connection was lost in the handshake: " + why);
    close_channel();
    perform(core_->disconnected(fmt::format("lost the coordinator at {}: {}", endpoint(), why), now()));
  }

  // ---- what the core decides

  void perform(const MemberActions& actions) {
    tell_lease();
    for (const MemberAction& action : actions) {
      if (listener_ == nullptr) return;
      std::visit([this](const auto& each) { act(each); }, action);
    }
    if (listener_ != nullptr) schedule();
  }

  void tell_lease() {
    const TimePoint lease = core_->has_workers() ? core_->last_moment() : TimePoint::max();
    if (listener_ != nullptr && std::exchange(lease_, lease) != lease) listener_->lease_held(lease);
  }

  void act(const SendStatus& send) {
    if (!channel_) return;
    Status status = send.status;
    status.knows_numbers = !std::exchange(has_sent_status_, true);
    channel_->send(status);
  }
  void act(RoundBegins begins) {
    restarts_used_ = begins.round.seat.restarts_used;
    begins.round.master_addr = channel_->remote_address().to_string();
    begins.round.master_port = options_.port;
    hear(std::move(begins));
  }
  void act(const Waiting& waiting) { hear(waiting); }
  void act(const RestartGranted& granted) { hear(granted); }
  void act(const RoundStopped& stopped) { hear(stopped); }
  void act(const LeaseLost& lost) { hear(lost); }
  void act(const JobEnded& leave) {
    pump_lines(std::numeric_limits<std::size_t>::max());
    if (const auto channel = forget_channel()) say_farewell(channel);
    hear_last(leave);
  }
  void act(const ComeBack& back) {
    close_channel();
    if (leaving_signal_ != 0) return end_for_signal();
    hear(Waiting{back.why});
    seek(Deadline::after(now(), options_.rejoin_timeout));
  }

  void say_farewell(const std::shared_ptr<Channel>& channel) {
    farewell_ = channel;
    // The last word of a node without lines says only that it is going.
    if (!has_sent_lines_) return channel->close_after_sending();
    channel->close_after_sending(kPatienceForLines);
  }
  std::shared_ptr<Channel> forget_channel() {
    is_joined_ = false;
    look_answers_.clear();
    look_bytes_ = 0;
    node_.id = MemberId();
    return std::exchange(channel_, nullptr);
  }
  // What is counted as lost does not arrive after all.
  void close_channel() {
    const auto channel = forget_channel();
    if (!channel) return;
    funnel_.arrived(channel->taken_bytes());
    if (funnel_.bytes_under_way() > 0) channel->close_and_discard();
    channel->close();
    funnel_.connection_ended();
  }

  void schedule() {
    const TimePoint at = core_ ? core_->next_wake() : TimePoint::max();
    if (at == TimePoint::max()) {
      core_timer_.cancel();
      return;
    }
    core_timer_.set_at(at, [this] { perform(core_->tick(now())); });
  }

  // ---- telling

  void tell(std::function<void(Listener&)> what) {
    boost::asio::post(io_, gate_.pass([this, what = std::move(what)] { what(*listener_); }));
  }

  void hear(MemberEvent event) {
    tell([event = std::move(event)](Listener& listener) { listener.heard(event); });
  }
  void hear_last(MemberEvent event) {
    tell([this, event = std::move(event)](Listener& listener) {
      close();
      listener.heard(event);
    });
  }

  void end_for_signal() {
    hear_last(JobEnded{{.exit_code = exit_code_of_leaving(leaving_signal_),
                        .why = fmt::format("node {} was told to stop by {}", options_.node.host,
                                           signal_name(leaving_signal_))}});
  }

  void fail(const Error& error) {
    if (leaving_signal_ != 0) return end_for_signal();
    hear_last(RendezvousLost{error});
  }

  boost::asio::io_context& io_;
  MemberOptions options_;
  Listener* listener_;  ///< none: closed
  Alarm timer_;         ///< of finding the coordinator
  Alarm core_timer_;    ///< of the core
  std::unique_ptr<Connector> connector_;
  std::shared_ptr<Channel> channel_;
  std::shared_ptr<Channel> farewell_;  ///< the one that sends what is left
  std::optional<MemberCore> core_;
  NodeFacts node_;
  std::optional<MemberId> admitted_as_;  ///< by a coordinator, the last time; outlives the connection
  int restarts_used_ = 0;
  std::optional<AgentHandshake> handshake_;  ///< of channel_
  LogFunnel funnel_;
  std::deque<LookAnswer> look_answers_;  ///< that wait for the coordinator's kernel
  std::size_t look_bytes_ = 0;           ///< of them
  bool has_sent_lines_ = false;
  bool is_joined_ = false;
  bool has_sent_status_ = false;  ///< over channel_
  bool coordinator_knows_numbers_ = false;
  int leaving_signal_ = 0;
  TimePoint lease_ = TimePoint::max();
  Deadline deadline_ = Deadline::never();
  TimePoint seeking_since_{};
  Duration pause_ = kFirstPause;
  bool has_said_ = false;
  int attempts_ = 0;
  Gate gate_;
  Gate farewell_gate_;
};

}  // namespace

std::unique_ptr<Member> Member::open(boost::asio::io_context& io, MemberOptions options, Listener& listener) {
  auto member = std::make_unique<TcpMember>(io, std::move(options), listener);
  member->start();
  return member;
}

}  // namespace ddprun::membership
