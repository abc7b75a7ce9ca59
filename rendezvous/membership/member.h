#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/membership/member_words.h"
#include "rendezvous/membership/messages.h"
#include "rendezvous/membership/types.h"

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::membership {

/// What the agent is told, on the io_context's thread. A Member calls `lease_held` from inside any call to it and
/// `lines_back` from inside `close`, but says all else by itself. A member without a connection, in the same process as
/// its job, may say anything from inside any call.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void heard(const MemberEvent& event) = 0;
  /// Until when the workers may live (MemberCore::last_moment); TimePoint::max(): for ever, or there are none.
  /// Whenever it changes, before RoundBegins, and from inside other calls.
  virtual void lease_held(TimePoint until) { static_cast<void>(until); }
  /// `ddprun why` or `ddprun ps --watch` of another node wants to know what this one sees of its ranks:
  /// `Member::answer_look`.
  virtual void look_wanted(const LookRequest& request) { static_cast<void>(request); }
  /// What another node sees, asked for with `Member::ask_to_look`.
  virtual void look_answered(const LookAnswer& answer) { static_cast<void>(answer); }
  /// Lines given to `send_lines` that will not reach the coordinator any more. Before the last word.
  virtual void lines_back(const LogLines& lines) { static_cast<void>(lines); }
  /// Lines of another node's workers, where the coordinator is here.
  virtual void remote_lines(ConnectionId connection, const std::string& node, const LogLines& lines) {
    static_cast<void>(connection), static_cast<void>(node), static_cast<void>(lines);
  }
  /// What this process may still have to open: who connects to our port does not get these.
  [[nodiscard]] virtual std::size_t reserved_descriptors() const { return 0; }
};

struct MemberOptions {
  std::string host;  ///< of the coordinator: a name or an address
  Port port;
  std::vector<std::string> also_try{};  ///< further addresses, after those of `host`
  JobSpec spec;
  NodeFacts node;              ///< `id` is drawn here
  std::string secret;          ///< empty: none
  std::string why_not_here{};  ///< why this node does not host the coordinator, though it could
  Duration join_timeout = std::chrono::seconds(600);   ///< to find a coordinator
  Duration rejoin_timeout = std::chrono::seconds(10);  ///< to find it again after it was lost
};

/// The agent's membership in a job: connects, joins, obeys the coordinator through a Listener, comes back
/// after a partition, and stops this node's workers in time when it is cut off. A thin shell around
/// MemberCore.
///
/// Threads   none of its own, but for a NameLookup's where the host is a name.
/// Lifetime  io_context and listener outlive it. The destructor calls `close()`.
class Member : public MemberWords {
 public:
  static std::unique_ptr<Member> open(boost::asio::io_context& io, MemberOptions options, Listener& listener);

  /// Asks the coordinator to drain the whole job. False: there is none now.
  virtual bool drain() = 0;
  /// Asks all other nodes what they see of their ranks. First comes an answer without text of each that was asked, and
  /// one from nobody after those.
  virtual Asked ask_to_look(std::uint64_t number, LookKind kind) = 0;
  /// A part of this node's answer; all of it may wait, and is gone with the connection.
  virtual void answer_look(LookAnswer answer) = 0;
  /// Workers' output for the coordinator's console. Never blocks; see LogFunnel.
  virtual void send_lines(bool is_stderr, std::string_view block) = 0;

  virtual void close() = 0;
  /// After `close()`: what is still on its way to the coordinator goes on, as Channel::close_after_sending()
  /// says. True: then `on_over` will be called, unless `cut_farewell` was.
  virtual bool await_farewell(std::function<void()> on_over) = 0;
  virtual void cut_farewell() = 0;
  /// How much of workers' output the coordinator has not taken, over all connections.
  [[nodiscard]] virtual std::size_t untaken_bytes() = 0;
};

}  // namespace ddprun::membership
