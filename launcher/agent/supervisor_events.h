#pragma once

#include "launcher/agent/blame.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/exit_status.h"
#include "rendezvous/base/ids.h"
#include "rendezvous/membership/member_words.h"

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace ddprun::launcher {

// What happens to a node, and what its agent has to do then: all that the supervisor and its shell say to each other.

using membership::JobEnded;
using membership::LeaseLost;
using membership::RendezvousLost;
using membership::RestartGranted;
using membership::RoundBegins;
using membership::RoundStopped;

struct WorkerSpawned {
  static constexpr std::string_view kName = "worker spawned";
  LocalRank local_rank;
  pid_t pid = 0;
};
struct SpawnFailed {
  static constexpr std::string_view kName = "spawn failed";
  LocalRank local_rank;
  Error error;
};
struct WorkerExited {
  static constexpr std::string_view kName = "worker exited";
  LocalRank local_rank;
  ExitStatus status;
  Ending ending{};
};
/// Before the first symptom is told, or another node's failure: these stand still, stopped by a signal (SIGSTOP).
struct WorkersSuspended {
  static constexpr std::string_view kName = "workers suspended";
  std::vector<LocalRank> workers;
};
struct Signalled {  ///< the launcher was told to stop
  static constexpr std::string_view kName = "signal";
  int signal = 0;
  std::string sender{};  ///< " from bash (pid 4711)"; empty: not known
  int exit_code = 0;     ///< of a job that ends for it; 0: the signal's
};
struct Swept {  ///< nothing that the workers started is alive any more
  static constexpr std::string_view kName = "swept";
  std::string survivors{};  ///< but for these
};

// The four deadlines.
struct BlameOver {
  static constexpr std::string_view kName = "blame deadline";
};
struct GraceOver {
  static constexpr std::string_view kName = "grace deadline";
};
struct ReapOver {
  static constexpr std::string_view kName = "reap deadline";
};
struct JobTimeOver {
  static constexpr std::string_view kName = "job deadline";
};

using Event = std::variant<RoundBegins, RendezvousLost, WorkerSpawned, SpawnFailed, WorkerExited,
                           WorkersSuspended, Signalled, RoundStopped, LeaseLost, JobEnded, RestartGranted,
                           Swept, BlameOver, GraceOver, ReapOver, JobTimeOver>;

/// Which of them: Event::index().
using EventKind = std::size_t;
inline constexpr EventKind kEventKinds = std::variant_size_v<Event>;

template <class Wanted, class... All>
constexpr EventKind kind_among(const std::variant<All...>* /*event*/) {
  const std::array is_it{std::is_same_v<Wanted, All>...};
  EventKind kind = 0;
  while (!is_it[kind]) ++kind;
  return kind;
}
template <class Wanted>
inline constexpr EventKind kKindOf = kind_among<Wanted>(static_cast<const Event*>(nullptr));

/// "worker exited"
std::string_view name_of(EventKind kind);

enum class DeadlineKind { kGrace, kReap, kJob, kBlame };
inline constexpr std::size_t kDeadlineKinds = 4;
std::string_view to_string(DeadlineKind kind);
/// What happens then.
Event expiry_of(DeadlineKind kind);

struct JoinRound {};     ///< ask the rendezvous for the next round; after a failure, whether there is one
struct SpawnWorkers {};  ///< all, with one event for each
/// SIGKILL is for the OS process group of each, any other signal for its own process alone, which is asked to end.
struct EndWorkers {
  std::vector<LocalRank> workers;
  int signal = 0;
};
struct SetDeadline {
  DeadlineKind deadline = DeadlineKind::kGrace;
  TimePoint at;
};
struct PublishFailure {  ///< tell the other nodes of the root cause
  /// The guilty one, where it is one, and who lost it, where that left with 0 or stood still.
  std::vector<LocalRank> workers{};
  int exit_code = 0;
  std::string why;
  std::string final_because{};  ///< why a restart would not help; empty: it may
};
struct PublishLeaving {  ///< tell the other nodes that this one was told to stop
  int signal = 0;
};
struct PublishSuccess {};   ///< tell the other nodes
struct Sweep {              ///< end what the workers left behind; then comes Swept
  bool is_at_once = false;  ///< without time to end by itself
};
struct NameStuck {  ///< say where these, which survived SIGKILL, are stuck
  std::vector<LocalRank> workers;
};
struct Finish {
  int exit_code = 0;
  std::string why{};              ///< for the other nodes, where they do not know
  bool leaves_survivors = false;  ///< something of the generation is alive, whatever was tried
};

using Action = std::variant<JoinRound, SpawnWorkers, EndWorkers, SetDeadline, PublishFailure, PublishLeaving,
                            PublishSuccess, Sweep, NameStuck, Finish>;

}  // namespace ddprun::launcher
