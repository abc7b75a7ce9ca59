#pragma once

#include "rendezvous/base/clock.h"
#include "rendezvous/base/exit_status.h"
#include "rendezvous/base/ids.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::membership {

/// One agent process; drawn at random when it starts, and again when it comes back after it was cut off.
using MemberId = StrongId<struct MemberIdTag, std::uint64_t>;

/// How many nodes make a world, and how often it may break. The coordinator's word counts.
struct JobSpec {
  std::string run_id = "none";
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;                         ///< one budget for the whole job
  std::optional<Duration> max_restarts_window;  ///< restarts older than this no longer count

  [[nodiscard]] bool is_elastic() const { return min_nodes < max_nodes; }
};

/// What a node whose workers have all succeeded can say of itself from then on, whoever asks: nothing of it
/// is alive, so that no lost lease, connection or coordinator can change it.
struct Success {
  Generation generation;
  NodeRank node_rank;
  int nodes = 1;            ///< of that generation
  std::string coordinator;  ///< Seat::coordinator of that generation: whose it was
  Rank base_rank;

  friend bool operator==(const Success&, const Success&) = default;
};

/// Who a node is, in its agent's words.
struct NodeFacts {
  MemberId id;
  std::string host;
  std::string address;  ///< as the coordinator sees it
  LocalWorldSize local_world_size{1};
  std::optional<NodeRank> pinned;  ///< --node-rank
  std::string role = "default";
  /// Who this agent was before it was cut off; none of its workers is alive.
  std::optional<MemberId> replaces;
  Generation last_generation;  ///< that it has heard of; 0: none. A coordinator that is new goes on from it
  int restarts_used = 0;       ///< as the last coordinator told this agent
  bool hosts_coordinator = false;    ///< the job ends when this node leaves it
  std::string cut_off;               ///< why, with `replaces`: "it was not answered for 4.00 s"; may be empty
  std::optional<Success> succeeded;  ///< in the last generation in which it had workers
};

/// How often the job had been restarted, for whatever reason, when a generation began: TORCHELASTIC_RESTART_COUNT, and
/// the number by which people know it. A Generation counts from 1, because 0 is none; people count from 0.
constexpr int restart_count(Generation generation) { return static_cast<int>(generation.value()) - 1; }

/// One node's place in a generation.
struct Seat {
  Generation generation{1};
  int restarts_used = 0;                ///< of the budget
  std::optional<int> restarts_allowed;  ///< the coordinator's --max-restarts; none: it did not say
  NodeRank node_rank;
  int nodes = 1;
  Rank base_rank;
  WorldSize world_size{1};
  Rank base_role_rank;
  WorldSize role_world_size{1};
  /// Random id of the coordinator that began this generation: equal generation numbers under different ids are
  /// different generations. Empty where the job has one node and is its own coordinator.
  std::string coordinator;

  friend bool operator==(const Seat&, const Seat&) = default;
};

/// Why a job ends that `ddprun drain` has ended.
inline constexpr std::string_view kDrained = "the job was drained; start it again to go on";

// Beyond any job: what comes from other nodes, or was typed, and says more is refused.
inline constexpr int kMaxNodes = 1'000'000;
inline constexpr int kMaxRanks = 1'000'000'000;

/// A round as one node sees it: its seat, and where its workers find the store.
struct Round {
  Seat seat;
  std::string master_addr{};  ///< at which this very node reaches the coordinator: proven by its connection
  Port master_port{};
  TimePoint valid_until = TimePoint::max();  ///< not to be started after that: the others may have gone on
  /// Restart::why of the restart that this is; empty: it is the first start, or this node was not there before.
  std::string restart_cause{};
};

/// How much a worker's end explains. Of two ends the heavier one is to blame.
enum class Weight {
  kSymptom,   ///< somebody else was gone: "Connection closed by peer"
  kDoubtful,  ///< it may have been somebody else's doing: a loader process, or the worker itself, was ended
              ///< from outside, or a connection to whomever was lost
  kCause,     ///< its own doing, as far as can be told
};
std::string_view to_string(Weight weight);

/// One worker of one generation and how it ended: what any node can be told of it.
struct WorkerEnd {
  Rank rank;
  LocalRank local_rank;
  int pid = 0;                       ///< 0 when it was never spawned
  std::optional<ExitStatus> status;  ///< none when it was never spawned or has not ended
  std::chrono::system_clock::time_point started_wall{};
  std::chrono::system_clock::time_point ended_wall{};
  std::string error_file;  ///< TORCHELASTIC_ERROR_FILE of this worker, there or not; a path on its host

  friend bool operator==(const WorkerEnd&, const WorkerEnd&) = default;
};

/// What can be said of a worker's end beyond that: enough for the report of another node.
struct Account {
  std::string diagnosis;      ///< its node's: "out of memory: …"; empty: the exit says all
  std::string error_message;  ///< of its error file: "ValueError: loss is nan"; empty: it wrote none
  std::string error_stack;
  std::string stderr_tail;    ///< last lines, or its traceback
  bool is_traceback = false;  ///< `stderr_tail` is one

  friend bool operator==(const Account&, const Account&) = default;
};

/// What a node tells about the first of its workers that failed: enough for any node to print the report.
struct NodeFailure {
  std::optional<WorkerEnd> worker;  ///< none: no worker is to blame, as for --job-timeout
  NodeRank node_rank;
  Generation generation;  ///< in which it failed; the coordinator says so
  std::string host;
  int exit_code = 1;          ///< the job's, if this is the root cause
  std::string what;           ///< "rank 2 (pid 4711) was killed by SIGKILL after 3.2 s"
  Account account;            ///< of the victim, where there is one
  std::string final_because;  ///< why a restart would not help; empty: it may
  Weight weight = Weight::kCause;
  /// No failure, but who may be behind a symptom: it ended with 0 while others went on. It is weighed as a symptom.
  bool has_left = false;
  /// The same of one that was stopped by a signal while others waited for it; it explains less than one that left.
  bool stood_still = false;
  bool waited_in_vain = false;  ///< of a symptom: a peer was silent; no other loss is of one that stood still
  std::optional<Rank> victim;   ///< who lost it

  [[nodiscard]] std::optional<Rank> rank() const {
    return worker ? std::optional(worker->rank) : std::nullopt;
  }
  friend bool operator==(const NodeFailure&, const NodeFailure&) = default;
};

/// A generation that follows another, for people.
struct Restart {
  int restart_count = 0;  ///< restart_count() of the generation that begins
  int number = 0;         ///< the …th of `allowed` restarts; 0: it costs none, as where nodes come or go
  int allowed = 0;
  Duration delay{};  ///< from now on, because generations keep dying young
  std::string why;
  std::optional<NodeFailure> root_cause;  ///< none when no worker is to blame

  friend bool operator==(const Restart&, const Restart&) = default;
};

/// The exit code of a node that was told to stop by `signal`, and of a job that ends because of it: SIGTERM
/// is how nodes are preempted, so it says "requeue me" (75); else 128 + signal.
int exit_code_of_leaving(int signal);

/// How the job ended, in the same words on every node.
struct JobEnd {
  int exit_code = 0;
  std::string why;                        ///< one sentence; empty when the job succeeded
  std::optional<NodeFailure> root_cause;  ///< the worker that failed first; none when no worker is to blame
  int restarts_used = 0;

  friend bool operator==(const JobEnd&, const JobEnd&) = default;
};

/// Where an agent stands. It tells this whole at every change and with every heartbeat, so a lost message is
/// repaired by the next.
enum class Phase {
  kIdle,       ///< no worker of `generation` or before is alive: ready for the next round
  kRunning,    ///< workers run
  kSucceeded,  ///< all workers of `generation` exited with 0, none is alive: ready as well
  kStopping,   ///< workers are being stopped
};

std::string_view to_string(Phase phase);

/// Agent → coordinator.
struct Status {
  std::uint64_t sequence = 0;  ///< ascending; an older one that arrives late says nothing
  Generation generation;       ///< last generation this agent has seen; 0: none yet
  Phase phase = Phase::kIdle;
  /// A worker's failure in `generation`; without a worker, a failure of the whole job (--job-timeout).
  std::optional<NodeFailure> failure;
  int leaving_signal = 0;  ///< not 0: this node was told to stop by this signal
  std::string cut_off;  ///< why its workers are ended although nobody told it to: "it was not answered for …"
  bool has_heard_end = false;  ///< of the job, and leaves it
  bool knows_numbers = false;  ///< LookKind::kNumbers; said with the first status of a connection

  friend bool operator==(const Status&, const Status&) = default;
};

/// What the nodes of a job are asked for.
enum class LookKind {
  kWhy,      ///< `ddprun why`: all that can be seen of their ranks, which takes seconds
  kNumbers,  ///< `ddprun ps --watch`: a few numbers of each, again and again
};

/// What has become of a question.
enum class Asked {
  kAll,         ///< every node whose version knows the question was asked
  kNobody,      ///< there is no coordinator now
  kTooOldHere,  ///< the coordinator does not know it
};

enum class OrderKind {
  kWait,  ///< nothing to do; `text` says what for
  kRun,   ///< start the workers of `seat`
  kStop,  ///< stop the workers of `generation`; `text` says why
  kEnd,   ///< the job is over, or over for this node
};

std::string_view to_string(OrderKind kind);

/// Coordinator → agent: what it should be doing, whole.
struct Order {
  OrderKind kind = OrderKind::kWait;
  std::uint64_t acknowledged = 0;  ///< newest status seen from this agent; renews its lease
  Generation generation;
  std::string text;
  std::optional<Seat> seat;
  std::optional<JobEnd> end;
  std::optional<Restart> restart;  ///< with kWait and kRun: why there is, or will be, another generation

  friend bool operator==(const Order&, const Order&) = default;
};

/// How a connection was lost, for people: neither says that workers behind it are gone.
enum class Loss {
  kClosed,  ///< the other side, or a proxy between, ended it in order
  kReset,   ///< broken on the way
};

/// "node b (10.0.0.2)"
std::string name_of(const NodeFacts& node);

/// `what` happened `where`, which belongs to what happened and not to what follows it: "rank 2 exited with code 7
/// on node 1 (b): lost a peer (…)".
std::string placed(const std::string& what, const std::string& where);

}  // namespace ddprun::membership
