#pragma once

#include "rendezvous/membership/member_words.h"
#include "rendezvous/membership/timing.h"
#include "rendezvous/membership/types.h"

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::membership {

/// What a member's shell must do, in this order.
struct SendStatus {
  Status status;
};
struct ComeBack {  ///< no worker is alive and the coordinator does not answer: connect anew, as a new member
  std::string why;
};
/// And what it tells its agent. Of RoundBegins the shell knows where the store is.
using MemberAction = std::variant<SendStatus, ComeBack, Waiting, RestartGranted, RoundBegins, RoundStopped,
                                  LeaseLost, JobEnded>;
using MemberActions = std::vector<MemberAction>;

/// The agent's side of membership: obeys orders, tells its status, and holds a lease.
///
/// Pure: events with `now` in, actions out.
///
/// Lease  the coordinator's answer to a status proves that it heard this node when that status was *sent*;
///        for `Timing::lease()` after that moment workers may run. Then they are killed, answered or not,
///        because soon after the others may start the next generation. A node whose workers have all succeeded needs
///        none: what it has reached it keeps, and tells whomever it finds, until a next generation begins.
class MemberCore {
 public:
  MemberCore(Timing timing, TimePoint now);

  /// A new connection: as a member never seen before.
  MemberActions connected(TimePoint now);
  MemberActions disconnected(const std::string& why, TimePoint now);
  /// The coordinator says that it has given this node up: the others may go on, as when the lease is over.
  MemberActions given_up(const std::string& why, TimePoint now);
  MemberActions order(const Order& order, TimePoint now);
  MemberActions tick(TimePoint now);

  /// The first worker of this node failed; the caller stops the others by itself. Or no worker did, and the job is
  /// not to go on: that counts without workers, too.
  MemberActions workers_failed(const NodeFailure& failure, TimePoint now);
  /// None is alive any more, and all of them ended with 0 before anybody asked them to: an answer to
  /// RoundStopped and LeaseLost, too.
  MemberActions workers_succeeded(TimePoint now);
  /// None is alive any more, after RoundStopped, LeaseLost, a failure or a signal.
  MemberActions workers_stopped(TimePoint now);
  /// This node was told to stop; the caller stops its workers by itself.
  MemberActions leave(int signal, TimePoint now);

  [[nodiscard]] TimePoint next_wake() const;
  [[nodiscard]] Phase phase() const { return status_.phase; }
  [[nodiscard]] Generation generation() const { return status_.generation; }
  /// The greatest that any order spoke of, also to a spare.
  [[nodiscard]] Generation seen_generation() const { return seen_generation_; }
  [[nodiscard]] TimePoint lease_until() const { return lease_until_; }
  /// When the workers have to be dead even if nobody calls `tick`: a little later than this class has them
  /// killed, and before the coordinator gives this node up.
  [[nodiscard]] TimePoint last_moment() const {
    return lease_until_ + (timing_.liveness() - timing_.lease()) / 4;
  }
  [[nodiscard]] bool has_workers() const {
    return status_.phase == Phase::kRunning || status_.phase == Phase::kStopping;
  }
  /// What this node has reached in the last generation in which it had workers, if it has.
  [[nodiscard]] const std::optional<Success>& success() const { return success_; }
  /// Why this node was cut off, if it was, in the others' words: "it was not answered for 4.00 s". Until it
  /// is connected again.
  [[nodiscard]] const std::string& why_cut_off() const { return status_.cut_off; }
  /// Why the others went on without this node, if they did: for how long it stood still, or the
  /// coordinator's words. Until it is connected again.
  [[nodiscard]] const std::optional<std::string>& why_given_up() const { return why_given_up_; }

 private:
  void notice_pause(TimePoint now);
  [[nodiscard]] std::string not_answered(TimePoint now);
  void send(TimePoint now, MemberActions& out);
  void obey_run(const Order& order, TimePoint now, MemberActions& out);
  void obey_stop(const Order& order, TimePoint now, MemberActions& out);
  void obey_end(const Order& order, TimePoint now, MemberActions& out);
  void enter(Generation generation);
  void workers_ended(TimePoint now, MemberActions& out);
  void leave_job(const JobEnd& end, TimePoint now, MemberActions& out);
  /// The round is over for this node, whoever ended it.
  void stop_round(const std::string& why, MemberActions& out);
  void kill(const std::string& why, MemberActions& out);
  void come_back(std::string why, MemberActions& out);

  Timing timing_;
  Status status_;
  bool is_connected_ = false;
  bool is_over_ = false;
  bool was_killed_ = false;
  std::optional<std::string> cut_off_;  ///< why to come back as soon as no worker is alive
  std::optional<std::string> why_given_up_;
  Seat seat_;  ///< in the last generation in which this node had workers
  std::optional<Success> success_;
  std::optional<NodeFailure> end_of_job_;  ///< nothing follows it, whoever hears it
  std::optional<JobEnd> end_;              ///< the job ended while workers were still being stopped
  std::deque<std::pair<std::uint64_t, TimePoint>> unanswered_;  ///< sequence, when it was sent
  TimePoint lease_until_;
  TimePoint last_answer_;
  TimePoint next_heartbeat_;
  std::string waiting_text_;
  Generation seen_generation_;
  std::optional<int> shown_restart_;  ///< or begun; none: it was in no generation yet
};

}  // namespace ddprun::membership
