#pragma once

#include "rendezvous/membership/lost_nodes.h"
#include "rendezvous/membership/ranks.h"
#include "rendezvous/membership/restart_policy.h"
#include "rendezvous/membership/round.h"
#include "rendezvous/membership/stop_cause.h"
#include "rendezvous/membership/successes.h"
#include "rendezvous/membership/timing.h"
#include "rendezvous/membership/types.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::membership {

/// What the coordinator's shell must do, in this order.
struct SendOrder {
  MemberId to;
  Order order;
};
struct Expel {  ///< tell it why and close its connection
  MemberId who;
  std::string why;
  bool may_return = true;  ///< as a new member; not when the same would be refused again
};
struct BeginGeneration {  ///< a fresh key space for the store clients that connect from now on
  Generation generation;
};
struct Note {  ///< a sentence for the log
  std::string text;
};
using JobAction = std::variant<SendOrder, Expel, BeginGeneration, Note>;
using JobActions = std::vector<JobAction>;

enum class JobPhase {
  kGathering,  ///< waiting for nodes
  kRunning,    ///< a generation runs
  kStopping,   ///< its workers are being stopped everywhere
  kEnded,
};

std::string_view to_string(JobPhase state);

/// The whole of a job's membership: who is in the world, which generation runs, why it stops, what follows.
///
/// Pure: events with `now` in, actions out. No socket, no clock.
///
/// Safety    the next generation begins only when every node of the last one has said that none of its
///           workers is alive, or has been silent for `Timing::liveness()`, which is longer than the lease
///           after which its workers are killed. The end of its connection is no such word: workers' children
///           outlive their agent for a moment, and a proxy ends connections for reasons of its own.
/// Success   a node that has said that its workers have all succeeded is done: no silence, no lost connection
///           and no stop of its generation undoes that, and it says so again when it comes back. When all
///           nodes of a generation have succeeded, the job has, whatever it was stopped for meanwhile. Where
///           only lost nodes can be missing for that, they have `Timing::rejoin_timeout` to come back before
///           the generation is given up.
/// Cause     of a stopped generation: StopCause. A node that was told to leave and whom the others cannot do
///           without ends the job.
/// Budget    failed workers, and lost nodes of a job of fixed size, cost one of `max_restarts`, under the
///           policy of one node (RestartPolicy). In an elastic job nodes come and go for nothing.
/// History   agents say which generation they were part of, so that a coordinator that is new counts on from
///           the greatest, and waits until workers of agents that it has not heard of are certain to be gone.
class Job {
 public:
  /// `coordinator` is drawn anew for each, so that its generations are not taken for those of one before it.
  Job(JobSpec spec, Timing timing, TimePoint now, std::string coordinator);

  /// `first` is what it said of itself with that, where it has said anything yet.
  JobActions joined(const NodeFacts& node, TimePoint now, const Status& first = {});
  JobActions status(MemberId from, const Status& status, TimePoint now);
  JobActions lost(MemberId who, Loss loss, TimePoint now);
  /// Ends the generation so that every node checkpoints, then the job (no node named) or that node's part in
  /// it.
  JobActions drain(std::optional<NodeRank> node, TimePoint now);
  /// Why that cannot be done; nullopt: it can.
  [[nodiscard]] std::optional<std::string> why_not_drained(std::optional<NodeRank> node) const;
  /// Ends the job on all nodes: at once while nodes gather, else when every worker is gone.
  JobActions end_for_all(const JobEnd& end, TimePoint now);
  /// After end_for_all: waits no longer for workers that live. Their nodes know the end, and stop them still.
  JobActions end_at_once(TimePoint now);
  /// To be called at `next_wake()`, or oftener.
  JobActions tick(TimePoint now);

  [[nodiscard]] TimePoint next_wake(TimePoint now) const;
  [[nodiscard]] JobPhase state() const { return state_; }
  [[nodiscard]] Generation generation() const { return generation_; }
  [[nodiscard]] const JobEnd& end() const { return end_; }
  /// Who is here and who is missing, for people; `now` for "not heard from for …".
  [[nodiscard]] std::string describe(TimePoint now) const;
  /// After the end: a node whose workers had succeeded has been cut off, or one of the generation before this
  /// coordinator has not come yet, and may come back to hear of it.
  [[nodiscard]] bool awaits_return(TimePoint now) const;
  /// Whose workers an end waits for, who has not left after it, and who is to hear of it, for people.
  [[nodiscard]] std::vector<std::string> awaited() const;

 private:
  struct Node {
    NodeFacts facts;
    std::uint64_t arrival = 0;
    TimePoint last_heard{};
    bool is_heard_in_stop = false;  ///< since the generation is being stopped
    Status last;
    std::optional<Seat> seat;  ///< in generation_
    std::optional<NodeRank> previous;
    std::optional<TimePoint> leaves_by;  ///< it has been told the end of the job
    int leaving_signal = 0;              ///< not 0: it was told to stop, by this signal or as if by it
    std::optional<JobEnd> ends_with;     ///< by itself, of no worker, and without a part in the job

    [[nodiscard]] bool is_leaving() const { return leaving_signal != 0 || ends_with; }
  };

  /// Its rank in this generation; between two, in the one before.
  [[nodiscard]] static std::optional<NodeRank> place_of(const Node& node);
  [[nodiscard]] static std::string name_of(const Node& node);
  [[nodiscard]] JobEnd ended_by_leaving(const Node& node) const;
  void absorb_pause(TimePoint now);
  void send_away_who_stays(TimePoint now, JobActions& out);
  void expect_leave(Node& node, TimePoint now) const;
  /// Whether leases have just run out because the coordinator stood still.
  [[nodiscard]] bool was_paused(TimePoint now) const;
  /// " because the coordinator stood still …", where that has cut nodes off; else nothing.
  [[nodiscard]] std::string because_of_pause(TimePoint now) const;
  void handle_status(Node& node, const Status& status, TimePoint now, JobActions& out);
  /// "rank 2 exited with code 7 after 3.2 s on node 1 (b, 10.0.0.2): lost a peer (…)"; of one node it needs no place.
  [[nodiscard]] std::string placed(const std::string& what, const Node& node) const;
  [[nodiscard]] const Node* who_left() const;
  [[nodiscard]] static NodeFailure as_leaver(const Node& node);
  /// Makes it the failure of the generation.
  void blame(const Node& node, NodeFailure failure);
  /// Of a generation that is being stopped: only where it explains more than what was blamed.
  void reconsider(const Node& node, NodeFailure failure, JobActions& out);
  void handle_leaving(Node& node, int signal, TimePoint now, JobActions& out);
  [[nodiscard]] bool has_had_a_part(const Node& node) const;
  void end_by_failure_of_no_worker(Node& node, const NodeFailure& failure, TimePoint now, JobActions& out);
  void drop(MemberId who, const std::string& why, TimePoint now, JobActions& out);
  void drop_silent(TimePoint now, JobActions& out);
  void replace_silent(const NodeFacts& newcomer, TimePoint now, JobActions& out);
  /// Whoever succeeded in this generation has a seat in it, under whatever name it sat there.
  [[nodiscard]] bool keeps_seat(const NodeFacts& facts) const;
  void vacate(NodeRank seat, JobActions& out);
  static void return_to_seat(Node& node);
  void send_to_all(TimePoint now, JobActions& out) const;
  void begin_stop(const std::string& why, TimePoint now, JobActions& out);
  void advance(TimePoint now, JobActions& out);
  void finish_if_all_succeeded(TimePoint now, JobActions& out);
  void conclude(TimePoint now, JobActions& out);
  void gather(TimePoint now, JobActions& out);
  void open_generation(const std::string& why, TimePoint now, JobActions& out);
  void finish(JobEnd end, TimePoint now, JobActions& out);
  void spend_restart_or_finish(JobEnd end, TimePoint now, JobActions& out);
  void restart_for_nothing(const std::string& why);
  void note_history(const NodeFacts& facts, TimePoint now);
  [[nodiscard]] Generation next_generation() const;
  void check_growth(TimePoint now, JobActions& out);

  [[nodiscard]] Order order_for(const Node& node, TimePoint now) const;
  [[nodiscard]] bool is_idle(const Node& node) const;
  /// None of its workers is alive.
  [[nodiscard]] bool reports_idle(const Node& node) const;
  [[nodiscard]] bool has_succeeded(const Node& node) const;
  [[nodiscard]] bool everyone_succeeded() const;
  [[nodiscard]] bool may_still_succeed(TimePoint now) const;
  [[nodiscard]] bool may_have_succeeded(TimePoint now) const;
  [[nodiscard]] std::optional<std::string> refuse(const NodeFacts& node, bool has_seat, TimePoint now) const;
  [[nodiscard]] RoundView view() const;
  /// Who could have a seat in the next generation: of nodes with one --node-rank only one, who had it first.
  [[nodiscard]] std::vector<const Node*> eligible() const;
  [[nodiscard]] std::vector<std::string> missing() const;
  [[nodiscard]] std::vector<std::string> awaited_to_hear(TimePoint now) const;
  [[nodiscard]] bool is_to_hear_the_end(const Node& node) const;
  [[nodiscard]] bool may_hear_of_others(TimePoint now) const;

  JobSpec spec_;
  Timing timing_;
  std::string coordinator_;
  JobPhase state_ = JobPhase::kGathering;
  Generation generation_{0};
  std::map<MemberId, Node> nodes_;
  std::set<MemberId> drained_;  ///< by command: who comes back in the place of one of them leaves, too
  std::uint64_t arrivals_ = 0;
  TimePoint opened_at_;
  TimePoint last_arrival_;
  TimePoint last_event_;
  Duration pause_{};  ///< the last in which leases ran out because nobody was answered
  TimePoint paused_until_{};
  LostNodes lost_nodes_;
  StopCause cause_;  ///< of generation_
  Successes successes_;
  RestartPolicy restarts_;
  std::optional<Restart> restart_;  ///< that led to the generation that is, or will be
  TimePoint restarts_at_ = TimePoint::min();
  Generation told_generation_;  ///< the last that an agent was part of, under a coordinator before this one
  std::set<MemberId> came_;     ///< until the first generation; not who was lost again
  bool has_run_ = false;        ///< a generation
  TimePoint began_at_{};        ///< generation_
  TimePoint stopped_at_{};
  JobEnd end_;
  std::string description_;  ///< describe(), made anew once in a heartbeat: it names many nodes
  JobPhase described_state_ = JobPhase::kEnded;
  TimePoint described_at_{};
  std::uint64_t described_arrivals_ = 0;  ///< who came later is not in it
};

}  // namespace ddprun::membership
