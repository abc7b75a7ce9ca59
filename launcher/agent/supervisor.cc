#include "launcher/agent/supervisor.h"

#include "rendezvous/base/check.h"

#include <fmt/format.h>

#include <csignal>
#include <functional>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace ddprun::launcher {
namespace {

// A set of states, so that one row can speak of several.
class States {
 public:
  constexpr States(State state) : bits_(bit(state)) {}  // NOLINT(google-explicit-constructor)
  constexpr States(std::initializer_list<State> states) {
    for (const State state : states) bits_ |= bit(state);
  }
  [[nodiscard]] constexpr bool has(State state) const { return (bits_ & bit(state)) != 0; }

 private:
  static constexpr unsigned bit(State state) { return 1U << static_cast<unsigned>(state); }
  unsigned bits_ = 0;
};

enum class Volume { kQuiet, kLoud };

// A guard or an act takes the event of its row or leaves it, and the time likewise.
template <auto f, class Self, class What>
constexpr bool kTakes =
    std::is_invocable_v<decltype(f), Self&, const What&, TimePoint> ||
    std::is_invocable_v<decltype(f), Self&, const What&> ||
    std::is_invocable_v<decltype(f), Self&, TimePoint> || std::is_invocable_v<decltype(f), Self&>;

template <class Answer, auto f, class Self>
Answer call(Self& self, const Event& event, TimePoint now) {
  return std::visit(
      [&]<class What>(const What& what) -> Answer {
        if constexpr (std::is_invocable_v<decltype(f), Self&, const What&, TimePoint>) {
          return std::invoke(f, self, what, now);
        } else if constexpr (std::is_invocable_v<decltype(f), Self&, const What&>) {
          return std::invoke(f, self, what);
        } else if constexpr (std::is_invocable_v<decltype(f), Self&, TimePoint>) {
          return std::invoke(f, self, now);
        } else if constexpr (std::is_invocable_v<decltype(f), Self&>) {
          return std::invoke(f, self);
        } else {
          DDPRUN_CHECK(false, "a row's functions take its event");
          return {};
        }
      },
      event);
}

// One bit for each kind of event.
template <auto f, class Self, class... All>
constexpr unsigned kinds_taken(const std::variant<All...>* /*event*/) {
  return ((kTakes<f, Self, All> ? 1U << kKindOf<All> : 0U) | ...);
}
template <auto f, class Self>
constexpr unsigned kKindsTaken = kinds_taken<f, Self>(static_cast<const Event*>(nullptr));

struct RowGuard {
  bool (*holds)(const Supervisor&, const Event&, TimePoint now);  // null: always
  unsigned kinds;
};
struct RowAct {
  std::vector<Action> (*call)(Supervisor&, const Event&, TimePoint now);
  unsigned kinds;
};

constexpr RowGuard kAlways{nullptr, ~0U};
template <auto f>
constexpr RowGuard when{&call<bool, f, const Supervisor>, kKindsTaken<f, const Supervisor>};
template <auto f>
constexpr RowAct does{&call<std::vector<Action>, f, Supervisor>, kKindsTaken<f, Supervisor>};
template <class What>
constexpr EventKind on = kKindOf<What>;

}  // namespace

// The whole policy. Of the rows for a state and an event the first whose guard holds is taken; a row without
// a guard always holds, and ends the list for its state and event.
struct SupervisorTable {
  struct Row {
    // What does not take the event of its row does not compile.
    consteval Row(States from_states, EventKind kind, RowGuard row_guard, State next, RowAct row_act,
                  Volume shown)
        : from(from_states), event(kind), guard(row_guard), to(next), act(row_act), volume(shown) {
      if (((guard.kinds & act.kinds) >> event & 1U) == 0) throw "guard or act take another event";
    }

    States from;
    EventKind event;
    RowGuard guard;
    State to;
    RowAct act;
    Volume volume;
  };
  struct NoRow {
    States from;
    EventKind event;
    TableEntry::Kind kind;
    std::string_view why;
  };

  static bool is_too_late(const Supervisor&, const RoundBegins& event, TimePoint now) {
    return now >= event.round.valid_until;
  }
  static bool time_is_over(const Supervisor& s) { return s.is_time_over_; }
  static bool is_last_spawn(const Supervisor& s, const WorkerSpawned& event) {
    return event.local_rank.value() + 1 == s.options_.local_world_size.value();
  }
  static bool succeeded(const Supervisor&, const WorkerExited& event) { return event.status.is_success(); }
  static bool is_last(const Supervisor& s, const WorkerExited& event) {
    return s.is_last_alive(event.local_rank);
  }
  static bool last_succeeded(const Supervisor& s, const WorkerExited& event) {
    return succeeded(s, event) && is_last(s, event);
  }
  static bool waits_for_cause(const Supervisor& s, const WorkerExited& event) {
    const bool may_come = s.options_.has_peers || !is_last(s, event);
    return may_come && event.ending.weight != Weight::kCause && s.options_.blame_window > Duration::zero();
  }
  static bool is_cause(const Supervisor&, const WorkerExited& event) {
    return !event.status.is_success() && event.ending.weight == Weight::kCause;
  }
  static bool is_last_cause(const Supervisor& s, const WorkerExited& event) {
    return is_cause(s, event) && is_last(s, event);
  }
  static bool nobody_will_say(const Supervisor& s, const WorkerExited& event) {
    return is_last(s, event) && !s.options_.has_peers;
  }
  static bool none_alive(const Supervisor& s) { return s.alive_count() == 0; }
  // Of several nodes the others are told that this one leaves, and that is why it ends, whatever it was looking for.
  static bool is_reason(const Supervisor& s, const Signalled& event, TimePoint now) {
    return s.options_.has_peers || s.is_sent_to_all(event, now);
  }
  static bool is_reason_none_alive(const Supervisor& s, const Signalled& event, TimePoint now) {
    return none_alive(s) && is_reason(s, event, now);
  }
  static bool is_second_interrupt(const Supervisor& s, const Signalled& event) {
    return event.signal == SIGINT && s.signals_received_ > 0;
  }
  static bool all_well(const Supervisor& s) { return s.reason_ == StopReason::kSucceeded; }
  static bool failed_with_survivors(const Supervisor& s, const Swept& event) {
    return !all_well(s) && (s.has_stuck_ || !event.survivors.empty());
  }
  static bool well_but_leaving(const Supervisor& s) {
    return all_well(s) && s.options_.has_peers && s.signals_received_ > 0;
  }
  // The report that follows begins with this very sentence, unless it tells another failure, one of this node.
  static bool report_says_why(const Supervisor& s, const JobEnded& event) {
    const bool is_of_others = s.reason_ == StopReason::kSucceeded || s.reason_ == StopReason::kRoundStopped;
    const std::optional<Rank> cause = event.end.root_cause ? event.end.root_cause->rank() : std::nullopt;
    const bool is_ours = cause && s.reason_ == StopReason::kWorkerFailed && cause == s.blamed_rank();
    return event.end.exit_code != 0 && (is_of_others || is_ours || !s.options_.has_peers);
  }
  static bool report_says_it(const Supervisor& s) { return !s.failed_by_itself(); }
  static bool may_go_on(const Supervisor& s) { return s.restart_forbidden_.empty(); }

  static const Row kRows[];
  static const NoRow kNoRows[];

  static const Row* find(const Supervisor& s, const Event& event, TimePoint now);
};

using S = State;
using T = SupervisorTable;
using Do = Supervisor;

constexpr States kUp{S::kStarting, S::kRunning, S::kBlaming};

// clang-format off
const SupervisorTable::Row SupervisorTable::kRows[] = {
    // state, event, guard, next state, what is done, whether a user sees it unasked
    {{S::kRendezvous, S::kWaiting}, on<RoundBegins>,    when<T::is_too_late>,           S::kRendezvous, does<&Do::decline_round>,            Volume::kLoud},
    {S::kWaiting,                   on<RoundBegins>,    when<T::time_is_over>,          S::kRendezvous, does<&Do::decline_last_round>,       Volume::kQuiet},
    {{S::kRendezvous, S::kWaiting}, on<RoundBegins>,    kAlways,                        S::kStarting,   does<&Do::begin_generation>,         Volume::kQuiet},
    {{S::kRendezvous, S::kWaiting}, on<RendezvousLost>, when<T::report_says_it>,        S::kDone,       does<&Do::finish_for_rendezvous>,    Volume::kQuiet},
    {S::kRendezvous,                on<RendezvousLost>, kAlways,                        S::kDone,       does<&Do::finish_for_rendezvous>,    Volume::kLoud},
    {S::kRendezvous,                on<JobEnded>,       when<T::report_says_why>,       S::kDone,       does<&Do::finish_for_job_end>,       Volume::kQuiet},
    {S::kRendezvous,                on<RestartGranted>, kAlways,                        S::kRendezvous, does<&Do::note_restart>,             Volume::kQuiet},
    {S::kRendezvous,                on<Signalled>,      kAlways,                        S::kDone,       does<&Do::finish_for_signal>,        Volume::kLoud},
    {S::kRendezvous,                on<JobTimeOver>,    kAlways,                        S::kDone,       does<&Do::finish_for_job_timeout>,   Volume::kLoud},
    {S::kRendezvous,                on<JobEnded>,       kAlways,                        S::kDone,       does<&Do::finish_for_job_end>,       Volume::kLoud},

    {S::kStarting,                  on<WorkerSpawned>,  when<T::is_last_spawn>,         S::kRunning,    does<&Do::note_spawned>,             Volume::kQuiet},
    {S::kStarting,                  on<WorkerSpawned>,  kAlways,                        S::kStarting,   does<&Do::note_spawned>,             Volume::kQuiet},
    {S::kStarting,                  on<SpawnFailed>,    when<T::none_alive>,            S::kSweeping,   does<&Do::stop_for_spawn>,           Volume::kQuiet},
    {S::kStarting,                  on<SpawnFailed>,    kAlways,                        S::kDraining,   does<&Do::stop_for_spawn>,           Volume::kLoud},
    {S::kStarting,                  on<WorkerExited>,   when<T::succeeded>,             S::kStarting,   does<&Do::note_exit>,                Volume::kQuiet},

    {S::kStarting,                  on<WorkersSuspended>, kAlways,                      S::kStarting,   does<&Do::note_suspended>,           Volume::kQuiet},
    {S::kRunning,                   on<WorkersSuspended>, kAlways,                      S::kRunning,    does<&Do::note_suspended>,           Volume::kQuiet},
    {S::kBlaming,                   on<WorkersSuspended>, kAlways,                      S::kBlaming,    does<&Do::note_suspended>,           Volume::kQuiet},

    {S::kRunning,                   on<WorkerExited>,   when<T::last_succeeded>,        S::kSweeping,   does<&Do::note_last_success>,        Volume::kQuiet},
    {S::kRunning,                   on<WorkerExited>,   when<T::succeeded>,             S::kRunning,    does<&Do::note_exit>,                Volume::kQuiet},

    {{S::kStarting, S::kRunning},   on<WorkerExited>,   when<T::waits_for_cause>,       S::kBlaming,    does<&Do::wait_for_cause>,           Volume::kLoud},
    {{S::kStarting, S::kRunning},   on<WorkerExited>,   when<T::is_last>,               S::kSweeping,   does<&Do::stop_for_exit>,            Volume::kQuiet},
    {{S::kStarting, S::kRunning},   on<WorkerExited>,   kAlways,                        S::kDraining,   does<&Do::stop_for_exit>,            Volume::kLoud},
    {{S::kStarting, S::kRunning},   on<Signalled>,      when<T::none_alive>,            S::kSweeping,   does<&Do::stop_for_signal>,          Volume::kLoud},
    {{S::kStarting, S::kRunning},   on<Signalled>,      kAlways,                        S::kDraining,   does<&Do::stop_for_signal>,          Volume::kLoud},
    {{S::kStarting, S::kRunning},   on<JobTimeOver>,    when<T::none_alive>,            S::kSweeping,   does<&Do::stop_for_job_timeout>,     Volume::kLoud},
    {{S::kStarting, S::kRunning},   on<JobTimeOver>,    kAlways,                        S::kDraining,   does<&Do::stop_for_job_timeout>,     Volume::kLoud},
    {kUp,                           on<RoundStopped>,   when<T::none_alive>,            S::kSweeping,   does<&Do::stop_for_round>,           Volume::kLoud},
    {kUp,                           on<RoundStopped>,   kAlways,                        S::kDraining,   does<&Do::stop_for_round>,           Volume::kLoud},
    {kUp,                           on<RendezvousLost>, when<T::none_alive>,            S::kSweeping,   does<&Do::stop_for_rendezvous>,      Volume::kLoud},
    {kUp,                           on<RendezvousLost>, kAlways,                        S::kDraining,   does<&Do::stop_for_rendezvous>,      Volume::kLoud},
    {kUp,                           on<JobEnded>,       when<T::none_alive>,            S::kSweeping,   does<&Do::stop_for_job_end>,         Volume::kLoud},
    {kUp,                           on<JobEnded>,       kAlways,                        S::kDraining,   does<&Do::stop_for_job_end>,         Volume::kLoud},
    {kUp,                           on<LeaseLost>,      when<T::none_alive>,            S::kSweeping,   does<&Do::stop_for_lease>,           Volume::kLoud},
    {kUp,                           on<LeaseLost>,      kAlways,                        S::kKilling,    does<&Do::kill_for_lease>,           Volume::kLoud},

    {S::kBlaming,                   on<WorkerExited>,   when<T::is_last_cause>,         S::kSweeping,   does<&Do::stop_for_exit>,            Volume::kQuiet},
    {S::kBlaming,                   on<WorkerExited>,   when<T::is_cause>,              S::kDraining,   does<&Do::stop_for_exit>,            Volume::kLoud},
    {S::kBlaming,                   on<WorkerExited>,   when<T::nobody_will_say>,       S::kSweeping,   does<&Do::stop_for_exit>,            Volume::kQuiet},
    {S::kBlaming,                   on<WorkerExited>,   kAlways,                        S::kBlaming,    does<&Do::note_exit>,                Volume::kQuiet},
    {S::kBlaming,                   on<BlameOver>,      when<T::none_alive>,            S::kSweeping,   does<&Do::stop_for_blame>,           Volume::kQuiet},
    {S::kBlaming,                   on<BlameOver>,      kAlways,                        S::kDraining,   does<&Do::stop_for_blame>,           Volume::kLoud},
    {S::kBlaming,                   on<Signalled>,      when<T::is_reason_none_alive>,  S::kSweeping,   does<&Do::stop_for_signal>,          Volume::kLoud},
    {S::kBlaming,                   on<Signalled>,      when<T::is_reason>,             S::kDraining,   does<&Do::stop_for_signal>,          Volume::kLoud},
    {S::kBlaming,                   on<Signalled>,      when<T::none_alive>,            S::kSweeping,   does<&Do::stop_for_blame_and_leave>, Volume::kLoud},
    {S::kBlaming,                   on<Signalled>,      kAlways,                        S::kDraining,   does<&Do::stop_for_blame_and_leave>, Volume::kLoud},
    {S::kBlaming,                   on<JobTimeOver>,    when<T::none_alive>,            S::kSweeping,   does<&Do::stop_for_blame_and_time>,  Volume::kLoud},
    {S::kBlaming,                   on<JobTimeOver>,    kAlways,                        S::kDraining,   does<&Do::stop_for_blame_and_time>,  Volume::kLoud},

    {S::kDraining,                  on<WorkerExited>,   when<T::is_last>,               S::kSweeping,   does<&Do::note_last_consequence>,    Volume::kQuiet},
    {S::kDraining,                  on<WorkerExited>,   kAlways,                        S::kDraining,   does<&Do::note_consequence>,         Volume::kQuiet},
    {S::kDraining,                  on<GraceOver>,      kAlways,                        S::kKilling,    does<&Do::kill_after_grace>,         Volume::kLoud},
    {S::kDraining,                  on<Signalled>,      when<T::is_second_interrupt>,   S::kKilling,    does<&Do::kill_for_signal>,          Volume::kLoud},
    {S::kDraining,                  on<Signalled>,      kAlways,                        S::kDraining,   does<&Do::note_signal>,              Volume::kLoud},
    {S::kDraining,                  on<JobTimeOver>,    kAlways,                        S::kDraining,   does<&Do::note_job_timeout>,         Volume::kLoud},
    {S::kDraining,                  on<JobEnded>,       kAlways,                        S::kDraining,   does<&Do::note_job_end>,             Volume::kQuiet},
    {S::kDraining,                  on<RendezvousLost>, kAlways,                        S::kDraining,   does<&Do::note_round_failed>,        Volume::kLoud},
    {S::kDraining,                  on<LeaseLost>,      kAlways,                        S::kKilling,    does<&Do::kill_for_lease>,           Volume::kLoud},

    {S::kKilling,                   on<WorkerExited>,   when<T::is_last>,               S::kSweeping,   does<&Do::note_last_consequence>,    Volume::kQuiet},
    {S::kKilling,                   on<WorkerExited>,   kAlways,                        S::kKilling,    does<&Do::note_consequence>,         Volume::kQuiet},
    {S::kKilling,                   on<ReapOver>,       kAlways,                        S::kSweeping,   does<&Do::give_up_on_stuck>,         Volume::kLoud},
    {S::kKilling,                   on<Signalled>,      kAlways,                        S::kKilling,    does<&Do::note_signal>,              Volume::kQuiet},
    {S::kKilling,                   on<JobTimeOver>,    kAlways,                        S::kKilling,    does<&Do::note_job_timeout>,         Volume::kLoud},
    {S::kKilling,                   on<JobEnded>,       kAlways,                        S::kKilling,    does<&Do::note_job_end>,             Volume::kQuiet},
    {S::kKilling,                   on<RendezvousLost>, kAlways,                        S::kKilling,    does<&Do::note_round_failed>,        Volume::kLoud},

    {S::kSweeping,                  on<Swept>,          when<T::failed_with_survivors>, S::kDone,       does<&Do::finish_beside_survivors>,  Volume::kQuiet},
    {S::kSweeping,                  on<Swept>,          when<T::well_but_leaving>,      S::kDone,       does<&Do::finish_for_noted_signal>,  Volume::kLoud},
    {S::kSweeping,                  on<Swept>,          when<T::all_well>,              S::kWaiting,    does<&Do::publish_success>,          Volume::kQuiet},
    {S::kSweeping,                  on<Swept>,          when<T::may_go_on>,             S::kRendezvous, does<&Do::join_again>,               Volume::kQuiet},
    {S::kSweeping,                  on<Swept>,          kAlways,                        S::kDone,       does<&Do::finish>,                   Volume::kQuiet},
    {S::kSweeping,                  on<WorkerExited>,   kAlways,                        S::kSweeping,   does<&Do::note_consequence>,         Volume::kQuiet},
    {S::kSweeping,                  on<Signalled>,      kAlways,                        S::kSweeping,   does<&Do::note_signal>,              Volume::kQuiet},
    {S::kSweeping,                  on<JobTimeOver>,    kAlways,                        S::kSweeping,   does<&Do::note_job_timeout>,         Volume::kQuiet},
    {S::kSweeping,                  on<JobEnded>,       kAlways,                        S::kSweeping,   does<&Do::note_job_end>,             Volume::kQuiet},
    {S::kSweeping,                  on<RendezvousLost>, kAlways,                        S::kSweeping,   does<&Do::note_round_failed>,        Volume::kLoud},
    {S::kSweeping,                  on<LeaseLost>,      kAlways,                        S::kSweeping,   does<&Do::sweep_at_once>,            Volume::kQuiet},

    {S::kWaiting,                   on<JobEnded>,       kAlways,                        S::kDone,       does<&Do::finish_for_job_end>,       Volume::kQuiet},
    {S::kWaiting,                   on<RendezvousLost>, kAlways,                        S::kDone,       does<&Do::finish_for_rendezvous>,    Volume::kLoud},
    {S::kWaiting,                   on<Signalled>,      kAlways,                        S::kDone,       does<&Do::finish_for_signal>,        Volume::kLoud},
    {S::kWaiting,                   on<JobTimeOver>,    kAlways,                        S::kWaiting,    does<&Do::note_job_timeout>,         Volume::kLoud},
};

constexpr auto kIgnored = TableEntry::Kind::kIgnored;
constexpr auto kBug = TableEntry::Kind::kBug;
constexpr std::string_view kLateTimer = "a deadline of an earlier state";
constexpr std::string_view kNoWorkers = "there are no workers in this state";
constexpr std::string_view kNotAsked = "nobody asked for it in this state";

const SupervisorTable::NoRow SupervisorTable::kNoRows[] = {
    {S::kRendezvous,                            on<WorkerSpawned>,  kBug,     kNotAsked},
    {S::kRendezvous,                            on<SpawnFailed>,    kBug,     kNotAsked},
    {S::kRendezvous,                            on<WorkerExited>,   kIgnored, "a worker given up as stuck has ended at last"},
    {S::kRendezvous,                            on<RoundStopped>,   kIgnored, "it belongs to a round we are not in"},
    {S::kRendezvous,                            on<LeaseLost>,      kIgnored, kNoWorkers},
    {S::kRendezvous,                            on<Swept>,          kBug,     kNotAsked},
    {S::kRendezvous,                            on<BlameOver>,      kIgnored, kLateTimer},
    {S::kRendezvous,                            on<GraceOver>,      kIgnored, kLateTimer},
    {S::kRendezvous,                            on<ReapOver>,       kIgnored, kLateTimer},

    {{S::kRendezvous, S::kDraining, S::kKilling, S::kSweeping, S::kWaiting, S::kDone}, on<WorkersSuspended>, kIgnored, "nobody is lost by them"},

    {{S::kStarting, S::kRunning, S::kBlaming, S::kDraining, S::kKilling, S::kSweeping, S::kWaiting},on<RestartGranted>, kIgnored, "no failure of ours waits for it"},

    {kUp,                                       on<RoundBegins>,    kBug,     "we are in a round"},
    {S::kBlaming,                               on<WorkerSpawned>,  kBug,     "spawning ends when a worker fails"},
    {S::kBlaming,                               on<SpawnFailed>,    kBug,     "spawning ends when a worker fails"},
    {{S::kStarting, S::kRunning},               on<BlameOver>,      kIgnored, kLateTimer},
    {S::kRunning,                               on<WorkerSpawned>,  kBug,     kNotAsked},
    {S::kRunning,                               on<SpawnFailed>,    kBug,     kNotAsked},
    {kUp,                                       on<Swept>,          kBug,     kNotAsked},
    {kUp,                                       on<GraceOver>,      kIgnored, kLateTimer},
    {kUp,                                       on<ReapOver>,       kIgnored, kLateTimer},

    {{S::kDraining, S::kKilling, S::kSweeping}, on<RoundBegins>,    kBug,     "we did not join"},
    {{S::kDraining, S::kKilling, S::kSweeping}, on<WorkerSpawned>,  kBug,     "spawning ends when the group is stopped"},
    {{S::kDraining, S::kKilling, S::kSweeping}, on<SpawnFailed>,    kBug,     "spawning ends when the group is stopped"},
    {{S::kDraining, S::kKilling, S::kSweeping}, on<RoundStopped>,   kIgnored, "the group is being stopped already, or has ended"},
    {S::kKilling,                               on<LeaseLost>,      kIgnored, "nothing of ours goes on as it is"},
    {{S::kDraining, S::kKilling},               on<Swept>,          kBug,     kNotAsked},
    {{S::kDraining, S::kKilling, S::kSweeping}, on<BlameOver>,      kIgnored, kLateTimer},
    {{S::kKilling, S::kSweeping},               on<GraceOver>,      kIgnored, kLateTimer},
    {{S::kDraining, S::kSweeping},              on<ReapOver>,       kIgnored, kLateTimer},

    {S::kWaiting,                               on<RoundStopped>,   kIgnored, "our workers have all succeeded"},
    {S::kWaiting,                               on<LeaseLost>,      kIgnored, "our workers have all succeeded"},
    {S::kWaiting,                               on<WorkerSpawned>,  kBug,     kNoWorkers},
    {S::kWaiting,                               on<SpawnFailed>,    kBug,     kNoWorkers},
    {S::kWaiting,                               on<WorkerExited>,   kBug,     kNoWorkers},
    {S::kWaiting,                               on<Swept>,          kBug,     kNotAsked},
    {S::kWaiting,                               on<BlameOver>,      kIgnored, kLateTimer},
    {S::kWaiting,                               on<GraceOver>,      kIgnored, kLateTimer},
    {S::kWaiting,                               on<ReapOver>,       kIgnored, kLateTimer},

    {S::kDone,                                  on<RoundBegins>,    kIgnored, "the job is over"},
    {S::kDone,                                  on<RendezvousLost>, kIgnored, "the job is over"},
    {S::kDone,                                  on<WorkerSpawned>,  kBug,     kNoWorkers},
    {S::kDone,                                  on<SpawnFailed>,    kBug,     kNoWorkers},
    {S::kDone,                                  on<WorkerExited>,   kIgnored, "a worker given up as stuck has ended at last"},
    {S::kDone,                                  on<Signalled>,      kIgnored, "the job is over"},
    {S::kDone,                                  on<RoundStopped>,   kIgnored, "the job is over"},
    {S::kDone,                                  on<LeaseLost>,      kIgnored, "the job is over"},
    {S::kDone,                                  on<JobEnded>,       kIgnored, "the job is over"},
    {S::kDone,                                  on<RestartGranted>, kIgnored, "the job is over"},
    {S::kDone,                                  on<Swept>,          kBug,     kNotAsked},
    {S::kDone,                                  on<BlameOver>,      kIgnored, "the job is over"},
    {S::kDone,                                  on<GraceOver>,      kIgnored, kLateTimer},
    {S::kDone,                                  on<ReapOver>,       kIgnored, kLateTimer},
    {S::kDone,                                  on<JobTimeOver>,    kIgnored, "the job is over"},
};
// clang-format on

const SupervisorTable::Row* SupervisorTable::find(const Supervisor& s, const Event& event, TimePoint now) {
  for (const Row& row : kRows) {
    if (!row.from.has(s.state_) || row.event != event.index()) continue;
    if (row.guard.holds == nullptr || row.guard.holds(s, event, now)) return &row;
  }
  return nullptr;
}

TableEntry table_entry(State state, EventKind event) {
  TableEntry entry;
  for (const T::Row& row : T::kRows) {
    if (!row.from.has(state) || row.event != event) continue;
    entry = {.kind = TableEntry::Kind::kRows, .is_total = row.guard.holds == nullptr, .why = {}};
  }
  for (const T::NoRow& row : T::kNoRows) {
    if (!row.from.has(state) || row.event != event) continue;
    DDPRUN_CHECK(entry.kind == TableEntry::Kind::kMissing,
                 "a state and event have rows, or one reason for none");
    entry = {.kind = row.kind, .is_total = true, .why = row.why};
  }
  return entry;
}

Supervisor::Supervisor(SupervisorOptions options) : options_(std::move(options)) {}

Step Supervisor::start(TimePoint now) {
  Step step{.from = state_, .to = state_, .actions = {}, .story = "joining the first round"};
  if (options_.job_timeout) {
    step.actions.emplace_back(SetDeadline{.deadline = DeadlineKind::kJob, .at = now + *options_.job_timeout});
  }
  step.actions.emplace_back(JoinRound{});
  return step;
}

Step Supervisor::handle(const Event& event, TimePoint now) {
  const T::Row* row = T::find(*this, event, now);
  if (row == nullptr) {
    const TableEntry entry = table_entry(state_, event.index());
    DDPRUN_CHECK(
        entry.kind == TableEntry::Kind::kIgnored,
        fmt::format("supervisor: {} in state {}: {}", name_of(event.index()), to_string(state_), entry.why));
    return {.from = state_,
            .to = state_,
            .actions = {},
            .story = fmt::format("{} ignored: {}", name_of(event.index()), entry.why)};
  }
  story_.clear();
  Step step{
      .from = state_, .to = row->to, .actions = {}, .story = {}, .is_loud = row->volume == Volume::kLoud};
  state_ = row->to;
  step.actions = row->act.call(*this, event, now);
  step.story = story_;
  return step;
}

std::string_view to_string(State state) {
  switch (state) {
    case State::kRendezvous:
      return "rendezvous";
    case State::kStarting:
      return "starting";
    case State::kRunning:
      return "running";
    case State::kBlaming:
      return "blaming";
    case State::kDraining:
      return "draining";
    case State::kKilling:
      return "killing";
    case State::kSweeping:
      return "sweeping";
    case State::kWaiting:
      return "waiting";
    case State::kDone:
      return "done";
  }
  return "?";
}

namespace {

template <class... All>
constexpr auto names_of(const std::variant<All...>* /*event*/) {
  return std::array{All::kName...};
}

}  // namespace

std::string_view name_of(EventKind kind) {
  static constexpr std::array kNames = names_of(static_cast<const Event*>(nullptr));
  return kNames.at(kind);
}

Event expiry_of(DeadlineKind kind) {
  switch (kind) {
    case DeadlineKind::kGrace:
      return GraceOver{};
    case DeadlineKind::kReap:
      return ReapOver{};
    case DeadlineKind::kJob:
      return JobTimeOver{};
    case DeadlineKind::kBlame:
      return BlameOver{};
  }
  return GraceOver{};
}

std::string_view to_string(DeadlineKind kind) {
  switch (kind) {
    case DeadlineKind::kGrace:
      return "grace";
    case DeadlineKind::kReap:
      return "reap";
    case DeadlineKind::kJob:
      return "job";
    case DeadlineKind::kBlame:
      return "blame";
  }
  return "?";
}

}  // namespace ddprun::launcher
