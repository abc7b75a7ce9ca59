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

/// What the agent is told, on the io_context's thread and, but for `on_lease`, never from inside a call to
/// Member.
class Listener {
 public:
  virtual ~Listener() = default;
  /// Who is waited for, for people; when it changes.
  virtual void on_waiting(const std::string& text) = 0;
  /// Another generation begins, or will; for people.
  virtual void on_restart(const Restart& restart) { static_cast<void>(restart); }
  /// Start the workers of a new generation; none of an older one is alive.
  virtual void on_round_begins(const Round& round) = 0;
  /// Stop the workers in order, then call `Member::workers_stopped`.
  virtual void on_round_stopped(const std::string& why) = 0;
  /// Kill the workers at once, then call `Member::workers_stopped`: the others may go on without this node.
  virtual void on_lease_lost(const std::string& why) = 0;
  /// Until when the workers may live (MemberCore::last_moment); TimePoint::max(): there are none. Whenever it
  /// changes, before `on_round_begins`, and from inside other calls.
  virtual void on_lease(TimePoint until) { static_cast<void>(until); }
  /// `ddprun why` of another node wants to know what this one sees of its ranks: `Member::answer_look`.
  virtual void on_look_wanted(const LookRequest& request) { static_cast<void>(request); }
  /// What another node sees, asked for with `Member::ask_to_look`.
  virtual void on_look_answer(const LookAnswer& answer) { static_cast<void>(answer); }
  /// Lines given to `send_lines` that will not reach the coordinator any more. Before the last call.
  virtual void on_lines_back(const LogLines& lines) { static_cast<void>(lines); }
  /// The job is over; no worker of this node is alive. The last call.
  virtual void on_job_ended(const JobEnd& end) = 0;
  /// This node cannot be part of the job: refused, no coordinator found, or it is lost for good. No worker of
  /// this node is alive. The last call.
  virtual void on_rendezvous_lost(const Error& error) = 0;
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
class Member final : public MemberWords {
 public:
  static std::unique_ptr<Member> open(boost::asio::io_context& io, MemberOptions options, Listener& listener);
  ~Member() override;
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  void workers_failed(const NodeFailure& failure) override;
  void workers_succeeded() override;
  void workers_stopped() override;
  void leave(int signal) override;
  /// Asks the coordinator to drain the whole job. False: there is none now.
  bool drain();
  /// Asks all other nodes what they see of their ranks. First comes an answer without text of each that was asked, and
  /// one from nobody after those.
  Asked ask_to_look(std::uint64_t number, LookKind kind);
  /// A part of this node's answer; all of it may wait, and is gone with the connection.
  void answer_look(LookAnswer answer);
  /// Workers' output for the coordinator's console. Never blocks; see LogFunnel.
  void send_lines(bool is_stderr, std::string_view block);

  void close();
  /// After `close()`: what is still on its way to the coordinator goes on, as Channel::close_after_sending()
  /// says. True: then `on_over` will be called, unless `cut_farewell` was.
  bool await_farewell(std::function<void()> on_over);
  void cut_farewell();
  /// How much of workers' output the coordinator has not taken, over all connections.
  [[nodiscard]] std::size_t untaken_bytes() const;

 private:
  class Impl;
  explicit Member(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::membership
