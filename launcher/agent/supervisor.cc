#include "launcher/agent/supervisor.h"

#include "rendezvous/base/check.h"

#include <fmt/format.h>

#include <csignal>
#include <initializer_list>
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

}  // namespace

// The whole policy. Of the rows for a state and an event the first whose guard holds is taken; a row without
// a guard always holds, and ends the list for its state and event.
struct SupervisorTable {
  using Guard = bool (*)(const Supervisor&, const Event&, TimePoint now);
  using Act = Supervisor::Actions (Supervisor::*)(const Event&, TimePoint);

  struct Row {
    States from;
    EventKind event;
    Guard guard;
    State to;
    Act act;
    Volume volume;
  };
  struct NoRow {
    States from;
    EventKind event;
    TableEntry::Kind kind;
    std::string_view why;
  };

  static constexpr Guard kAlways = nullptr;
  static bool is_too_late(const Supervisor&, const Event& event, TimePoint now) {
    return now >= event.valid_until;
  }
  static bool time_is_over(const Supervisor& s, const Event&, TimePoint) { return s.is_time_over_; }
  static bool is_last_spawn(const Supervisor& s, const Event& event, TimePoint) {
    return event.local_rank.value() + 1 == s.options_.local_world_size.value();
  }
  static bool succeeded(const Supervisor&, const Event& event, TimePoint) {
    return event.status.is_success();
  }
  static bool last_succeeded(const Supervisor& s, const Event& event, TimePoint) {
    return event.status.is_success() && s.is_last_alive(event.local_rank);
  }
  static bool is_last(const Supervisor& s, const Event& event, TimePoint) {
    return s.is_last_alive(event.local_rank);
  }
  static bool waits_for_cause(const Supervisor& s, const Event& event, TimePoint) {
    const bool may_come = s.options_.has_peers || !s.is_last_alive(event.local_rank);
    return may_come && event.ending.weight != Weight::kCause && s.options_.blame_window > Duration::zero();
  }
  static bool is_cause(const Supervisor&, const Event& event, TimePoint) {
    return !event.status.is_success() && event.ending.weight == Weight::kCause;
  }
  static bool is_last_cause(const Supervisor& s, const Event& event, TimePoint now) {
    return is_cause(s, event, now) && s.is_last_alive(event.local_rank);
  }
  static bool nobody_will_say(const Supervisor& s, const Event& event, TimePoint) {
    return s.is_last_alive(event.local_rank) && !s.options_.has_peers;
  }
  static bool none_alive(const Supervisor& s, const Event&, TimePoint) { return s.alive_count() == 0; }
  // The others are told that this node leaves, and that is why it ends, whatever it was looking for.
  static bool is_of_several(const Supervisor& s, const Event&, TimePoint) { return s.options_.has_peers; }
  static bool none_alive_of_several(const Supervisor& s, const Event& event, TimePoint now) {
    return none_alive(s, event, now) && is_of_several(s, event, now);
  }
  static bool is_second_interrupt(const Supervisor& s, const Event& event, TimePoint) {
    return event.signal == SIGINT && s.signals_received_ > 0;
  }
  static bool all_well(const Supervisor& s, const Event&, TimePoint) {
    return s.reason_ == StopReason::kSucceeded;
  }
  static bool failed_with_survivors(const Supervisor& s, const Event& event, TimePoint now) {
    return !all_well(s, event, now) && (s.has_stuck_ || !event.text.empty());
  }
  static bool well_but_leaving(const Supervisor& s, const Event& event, TimePoint now) {
    return all_well(s, event, now) && s.options_.has_peers && s.signals_received_ > 0;
  }
  // The report that follows begins with this very sentence, unless it has a failure of this node to tell.
  static bool report_says_why(const Supervisor& s, const Event& event, TimePoint) {
    if (event.kind == EventKind::kRendezvousLost) return !s.failed_by_itself();
    const bool is_of_others = s.reason_ == StopReason::kSucceeded || s.reason_ == StopReason::kPeerFailed;
    return event.exit_code != 0 && (is_of_others || !s.options_.has_peers);
  }
  static bool may_go_on(const Supervisor& s, const Event&, TimePoint) { return s.restart_forbidden_.empty(); }

  static const Row kRows[];
  static const NoRow kNoRows[];

  static const Row* find(const Supervisor& s, const Event& event, TimePoint now);
};

using S = State;
using E = EventKind;
using T = SupervisorTable;
using Do = Supervisor;

constexpr States kUp{S::kStarting, S::kRunning, S::kBlaming};

// clang-format off
const SupervisorTable::Row SupervisorTable::kRows[] = {
    // state                       event              guard                  next           does                         shown
    {{S::kRendezvous, S::kWaiting}, E::kRoundBegins,  T::is_too_late,        S::kRendezvous, &Do::decline_round,         Volume::kLoud},
    {S::kWaiting,                  E::kRoundBegins,   T::time_is_over,       S::kRendezvous, &Do::decline_last_round,    Volume::kQuiet},
    {{S::kRendezvous, S::kWaiting}, E::kRoundBegins,  kAlways,               S::kStarting,  &Do::begin_generation,       Volume::kQuiet},
    {{S::kRendezvous, S::kWaiting}, E::kRendezvousLost, T::report_says_why,    S::kDone,      &Do::finish_for_round,       Volume::kQuiet},
    {S::kRendezvous,               E::kRendezvousLost, kAlways,               S::kDone,      &Do::finish_for_round,       Volume::kLoud},
    {S::kRendezvous,               E::kJobEnded,      T::report_says_why,    S::kDone,      &Do::finish_for_job_end,     Volume::kQuiet},
    {S::kRendezvous,               E::kRestartGranted, kAlways,              S::kRendezvous, &Do::note_restart,          Volume::kQuiet},
    {S::kRendezvous,               E::kSignal,        kAlways,               S::kDone,      &Do::finish_for_signal,      Volume::kLoud},
    {S::kRendezvous,               E::kJobTimeOver,   kAlways,               S::kDone,      &Do::finish_for_job_timeout, Volume::kLoud},
    {S::kRendezvous,               E::kJobEnded,      kAlways,               S::kDone,      &Do::finish_for_job_end,     Volume::kLoud},

    {S::kStarting,                 E::kWorkerSpawned, T::is_last_spawn,      S::kRunning,   &Do::note_spawned,           Volume::kQuiet},
    {S::kStarting,                 E::kWorkerSpawned, kAlways,               S::kStarting,  &Do::note_spawned,           Volume::kQuiet},
    {S::kStarting,                 E::kSpawnFailed,   T::none_alive,         S::kSweeping,  &Do::stop_for_spawn,         Volume::kQuiet},
    {S::kStarting,                 E::kSpawnFailed,   kAlways,               S::kDraining,  &Do::stop_for_spawn,         Volume::kLoud},
    {S::kStarting,                 E::kWorkerExited,  T::succeeded,          S::kStarting,  &Do::note_exit,              Volume::kQuiet},

    {S::kRunning,                  E::kWorkerExited,  T::last_succeeded,     S::kSweeping,  &Do::note_last_success,      Volume::kQuiet},
    {S::kRunning,                  E::kWorkerExited,  T::succeeded,          S::kRunning,   &Do::note_exit,              Volume::kQuiet},

    {{S::kStarting, S::kRunning},  E::kWorkerExited,  T::waits_for_cause,    S::kBlaming,   &Do::wait_for_cause,         Volume::kLoud},
    {{S::kStarting, S::kRunning},  E::kWorkerExited,  T::is_last,            S::kSweeping,  &Do::stop_for_exit,          Volume::kQuiet},
    {{S::kStarting, S::kRunning},  E::kWorkerExited,  kAlways,               S::kDraining,  &Do::stop_for_exit,          Volume::kLoud},
    {{S::kStarting, S::kRunning},  E::kSignal,        T::none_alive,         S::kSweeping,  &Do::stop_for_signal,        Volume::kLoud},
    {{S::kStarting, S::kRunning},  E::kSignal,        kAlways,               S::kDraining,  &Do::stop_for_signal,        Volume::kLoud},
    {{S::kStarting, S::kRunning},  E::kJobTimeOver,   T::none_alive,         S::kSweeping,  &Do::stop_for_job_timeout,   Volume::kLoud},
    {{S::kStarting, S::kRunning},  E::kJobTimeOver,   kAlways,               S::kDraining,  &Do::stop_for_job_timeout,   Volume::kLoud},
    {kUp,                          E::kRoundStopped,  T::none_alive,         S::kSweeping,  &Do::stop_for_peer,          Volume::kLoud},
    {kUp,                          E::kRoundStopped,  kAlways,               S::kDraining,  &Do::stop_for_peer,          Volume::kLoud},
    {kUp,                          E::kRendezvousLost, T::none_alive,         S::kSweeping,  &Do::stop_for_round,         Volume::kLoud},
    {kUp,                          E::kRendezvousLost, kAlways,               S::kDraining,  &Do::stop_for_round,         Volume::kLoud},
    {kUp,                          E::kJobEnded,      T::none_alive,         S::kSweeping,  &Do::stop_for_job_end,       Volume::kLoud},
    {kUp,                          E::kJobEnded,      kAlways,               S::kDraining,  &Do::stop_for_job_end,       Volume::kLoud},
    {kUp,                          E::kLeaseLost,     T::none_alive,         S::kSweeping,  &Do::stop_for_peer,          Volume::kLoud},
    {kUp,                          E::kLeaseLost,     kAlways,               S::kKilling,   &Do::kill_for_lease,         Volume::kLoud},

    {S::kBlaming,                  E::kWorkerExited,  T::is_last_cause,      S::kSweeping,  &Do::stop_for_exit,          Volume::kQuiet},
    {S::kBlaming,                  E::kWorkerExited,  T::is_cause,           S::kDraining,  &Do::stop_for_exit,          Volume::kLoud},
    {S::kBlaming,                  E::kWorkerExited,  T::nobody_will_say,    S::kSweeping,  &Do::stop_for_exit,          Volume::kQuiet},
    {S::kBlaming,                  E::kWorkerExited,  kAlways,               S::kBlaming,   &Do::note_symptom,           Volume::kQuiet},
    {S::kBlaming,                  E::kBlameOver,     T::none_alive,         S::kSweeping,  &Do::stop_for_blame,         Volume::kQuiet},
    {S::kBlaming,                  E::kBlameOver,     kAlways,               S::kDraining,  &Do::stop_for_blame,         Volume::kLoud},
    {S::kBlaming,                  E::kSignal,        T::none_alive_of_several, S::kSweeping, &Do::stop_for_signal,      Volume::kLoud},
    {S::kBlaming,                  E::kSignal,        T::is_of_several,      S::kDraining,  &Do::stop_for_signal,        Volume::kLoud},
    {S::kBlaming,                  E::kSignal,        T::none_alive,         S::kSweeping,  &Do::stop_for_blame,         Volume::kLoud},
    {S::kBlaming,                  E::kSignal,        kAlways,               S::kDraining,  &Do::stop_for_blame,         Volume::kLoud},
    {S::kBlaming,                  E::kJobTimeOver,   T::none_alive,         S::kSweeping,  &Do::stop_for_blame,         Volume::kLoud},
    {S::kBlaming,                  E::kJobTimeOver,   kAlways,               S::kDraining,  &Do::stop_for_blame,         Volume::kLoud},

    {S::kDraining,                 E::kWorkerExited,  T::is_last,            S::kSweeping,  &Do::note_last_consequence,  Volume::kQuiet},
    {S::kDraining,                 E::kWorkerExited,  kAlways,               S::kDraining,  &Do::note_consequence,       Volume::kQuiet},
    {S::kDraining,                 E::kGraceOver,     kAlways,               S::kKilling,   &Do::kill,                   Volume::kLoud},
    {S::kDraining,                 E::kSignal,        T::is_second_interrupt, S::kKilling,  &Do::kill,                   Volume::kLoud},
    {S::kDraining,                 E::kSignal,        kAlways,               S::kDraining,  &Do::note_signal,            Volume::kLoud},
    {S::kDraining,                 E::kJobTimeOver,   kAlways,               S::kDraining,  &Do::note_job_timeout,       Volume::kLoud},
    {S::kDraining,                 E::kJobEnded,      kAlways,               S::kDraining,  &Do::note_job_end,           Volume::kQuiet},
    {S::kDraining,                 E::kRendezvousLost, kAlways,               S::kDraining,  &Do::note_round_failed,      Volume::kLoud},
    {S::kDraining,                 E::kLeaseLost,     kAlways,               S::kKilling,   &Do::kill_for_lease,         Volume::kLoud},

    {S::kKilling,                  E::kWorkerExited,  T::is_last,            S::kSweeping,  &Do::note_last_consequence,  Volume::kQuiet},
    {S::kKilling,                  E::kWorkerExited,  kAlways,               S::kKilling,   &Do::note_consequence,       Volume::kQuiet},
    {S::kKilling,                  E::kReapOver,      kAlways,               S::kSweeping,  &Do::give_up_on_stuck,       Volume::kLoud},
    {S::kKilling,                  E::kSignal,        kAlways,               S::kKilling,   &Do::note_signal,            Volume::kQuiet},
    {S::kKilling,                  E::kJobTimeOver,   kAlways,               S::kKilling,   &Do::note_job_timeout,       Volume::kLoud},
    {S::kKilling,                  E::kJobEnded,      kAlways,               S::kKilling,   &Do::note_job_end,           Volume::kQuiet},
    {S::kKilling,                  E::kRendezvousLost, kAlways,               S::kKilling,   &Do::note_round_failed,      Volume::kLoud},

    {S::kSweeping,                 E::kSwept,         T::failed_with_survivors, S::kDone,   &Do::finish_beside_survivors, Volume::kQuiet},
    {S::kSweeping,                 E::kSwept,         T::well_but_leaving,   S::kDone,      &Do::finish_for_noted_signal, Volume::kLoud},
    {S::kSweeping,                 E::kSwept,         T::all_well,           S::kWaiting,   &Do::publish_success,        Volume::kQuiet},
    {S::kSweeping,                 E::kSwept,         T::may_go_on,          S::kRendezvous, &Do::join_again,            Volume::kQuiet},
    {S::kSweeping,                 E::kSwept,         kAlways,               S::kDone,      &Do::finish,                 Volume::kQuiet},
    {S::kSweeping,                 E::kWorkerExited,  kAlways,               S::kSweeping,  &Do::note_consequence,       Volume::kQuiet},
    {S::kSweeping,                 E::kSignal,        kAlways,               S::kSweeping,  &Do::note_signal,            Volume::kQuiet},
    {S::kSweeping,                 E::kJobTimeOver,   kAlways,               S::kSweeping,  &Do::note_job_timeout,       Volume::kQuiet},
    {S::kSweeping,                 E::kJobEnded,      kAlways,               S::kSweeping,  &Do::note_job_end,           Volume::kQuiet},
    {S::kSweeping,                 E::kRendezvousLost, kAlways,               S::kSweeping,  &Do::note_round_failed,      Volume::kLoud},
    {S::kSweeping,                 E::kLeaseLost,     kAlways,               S::kSweeping,  &Do::sweep_at_once,          Volume::kQuiet},

    {S::kWaiting,                  E::kJobEnded,      kAlways,               S::kDone,      &Do::finish_for_job_end,     Volume::kQuiet},
    {S::kWaiting,                  E::kRendezvousLost, kAlways,               S::kDone,      &Do::finish_for_round,       Volume::kLoud},
    {S::kWaiting,                  E::kSignal,        kAlways,               S::kDone,      &Do::finish_for_signal,      Volume::kLoud},
    {S::kWaiting,                  E::kJobTimeOver,   kAlways,               S::kWaiting,   &Do::note_job_timeout,       Volume::kLoud},
};

constexpr auto kIgnored = TableEntry::Kind::kIgnored;
constexpr auto kBug = TableEntry::Kind::kBug;
constexpr std::string_view kLateTimer = "a deadline of an earlier state";
constexpr std::string_view kNoWorkers = "there are no workers in this state";
constexpr std::string_view kNotAsked = "nobody asked for it in this state";

const SupervisorTable::NoRow SupervisorTable::kNoRows[] = {
    {S::kRendezvous,                                       E::kWorkerSpawned, kBug,     kNotAsked},
    {S::kRendezvous,                                       E::kSpawnFailed,   kBug,     kNotAsked},
    {S::kRendezvous,                                       E::kWorkerExited,  kIgnored, "a worker given up as stuck has ended at last"},
    {S::kRendezvous,                                       E::kRoundStopped,  kIgnored, "it belongs to a round we are not in"},
    {S::kRendezvous,                                       E::kLeaseLost,     kIgnored, kNoWorkers},
    {S::kRendezvous,                                       E::kSwept,         kBug,     kNotAsked},
    {S::kRendezvous,                                       E::kBlameOver,     kIgnored, kLateTimer},
    {S::kRendezvous,                                       E::kGraceOver,     kIgnored, kLateTimer},
    {S::kRendezvous,                                       E::kReapOver,      kIgnored, kLateTimer},

    {{S::kStarting, S::kRunning, S::kBlaming, S::kDraining, S::kKilling, S::kSweeping, S::kWaiting}, E::kRestartGranted, kIgnored, "no failure of ours waits for it"},

    {kUp,                                                  E::kRoundBegins,   kBug,     "we are in a round"},
    {S::kBlaming,                                          E::kWorkerSpawned, kBug,     "spawning ends when a worker fails"},
    {S::kBlaming,                                          E::kSpawnFailed,   kBug,     "spawning ends when a worker fails"},
    {{S::kStarting, S::kRunning},                          E::kBlameOver,     kIgnored, kLateTimer},
    {S::kRunning,                                          E::kWorkerSpawned, kBug,     kNotAsked},
    {S::kRunning,                                          E::kSpawnFailed,   kBug,     kNotAsked},
    {kUp,                                                  E::kSwept,         kBug,     kNotAsked},
    {kUp,                                                  E::kGraceOver,     kIgnored, kLateTimer},
    {kUp,                                                  E::kReapOver,      kIgnored, kLateTimer},

    {{S::kDraining, S::kKilling, S::kSweeping},            E::kRoundBegins,   kBug,     "we did not join"},
    {{S::kDraining, S::kKilling, S::kSweeping},            E::kWorkerSpawned, kBug,     "spawning ends when the group is stopped"},
    {{S::kDraining, S::kKilling, S::kSweeping},            E::kSpawnFailed,   kBug,     "spawning ends when the group is stopped"},
    {{S::kDraining, S::kKilling, S::kSweeping},            E::kRoundStopped,  kIgnored, "the group is being stopped already, or has ended"},
    {S::kKilling,                                          E::kLeaseLost,     kIgnored, "nothing of ours goes on as it is"},
    {{S::kDraining, S::kKilling},                          E::kSwept,         kBug,     kNotAsked},
    {{S::kDraining, S::kKilling, S::kSweeping},            E::kBlameOver,     kIgnored, kLateTimer},
    {{S::kKilling, S::kSweeping},                          E::kGraceOver,     kIgnored, kLateTimer},
    {{S::kDraining, S::kSweeping},                         E::kReapOver,      kIgnored, kLateTimer},

    {S::kWaiting,                                          E::kRoundStopped,  kIgnored, "our workers have all succeeded"},
    {S::kWaiting,                                          E::kLeaseLost,     kIgnored, "our workers have all succeeded"},
    {S::kWaiting,                                          E::kWorkerSpawned, kBug,     kNoWorkers},
    {S::kWaiting,                                          E::kSpawnFailed,   kBug,     kNoWorkers},
    {S::kWaiting,                                          E::kWorkerExited,  kBug,     kNoWorkers},
    {S::kWaiting,                                          E::kSwept,         kBug,     kNotAsked},
    {S::kWaiting,                                          E::kBlameOver,     kIgnored, kLateTimer},
    {S::kWaiting,                                          E::kGraceOver,     kIgnored, kLateTimer},
    {S::kWaiting,                                          E::kReapOver,      kIgnored, kLateTimer},

    {S::kDone,                                             E::kRoundBegins,   kIgnored, "the job is over"},
    {S::kDone,                                             E::kRendezvousLost, kIgnored, "the job is over"},
    {S::kDone,                                             E::kWorkerSpawned, kBug,     kNoWorkers},
    {S::kDone,                                             E::kSpawnFailed,   kBug,     kNoWorkers},
    {S::kDone,                                             E::kWorkerExited,  kIgnored, "a worker given up as stuck has ended at last"},
    {S::kDone,                                             E::kSignal,        kIgnored, "the job is over"},
    {S::kDone,                                             E::kRoundStopped,  kIgnored, "the job is over"},
    {S::kDone,                                             E::kLeaseLost,     kIgnored, "the job is over"},
    {S::kDone,                                             E::kJobEnded,      kIgnored, "the job is over"},
    {S::kDone,                                             E::kRestartGranted, kIgnored, "the job is over"},
    {S::kDone,                                             E::kSwept,         kBug,     kNotAsked},
    {S::kDone,                                             E::kBlameOver,     kIgnored, "the job is over"},
    {S::kDone,                                             E::kGraceOver,     kIgnored, kLateTimer},
    {S::kDone,                                             E::kReapOver,      kIgnored, kLateTimer},
    {S::kDone,                                             E::kJobTimeOver,   kIgnored, "the job is over"},
};
// clang-format on

const SupervisorTable::Row* SupervisorTable::find(const Supervisor& s, const Event& event, TimePoint now) {
  for (const Row& row : kRows) {
    if (!row.from.has(s.state_) || row.event != event.kind) continue;
    if (row.guard == kAlways || row.guard(s, event, now)) return &row;
  }
  return nullptr;
}

TableEntry table_entry(State state, EventKind event) {
  TableEntry entry;
  for (const T::Row& row : T::kRows) {
    if (!row.from.has(state) || row.event != event) continue;
    entry = {.kind = TableEntry::Kind::kRows, .is_total = row.guard == T::kAlways, .why = {}};
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
    step.actions.push_back({.kind = ActionKind::kSetDeadline,
                            .deadline = DeadlineKind::kJob,
                            .at = now + *options_.job_timeout});
  }
  step.actions.push_back({.kind = ActionKind::kJoinRound});
  return step;
}

Step Supervisor::handle(const Event& event, TimePoint now) {
  const T::Row* row = T::find(*this, event, now);
  if (row == nullptr) {
    const TableEntry entry = table_entry(state_, event.kind);
    DDPRUN_CHECK(
        entry.kind == TableEntry::Kind::kIgnored,
        fmt::format("supervisor: {} in state {}: {}", to_string(event.kind), to_string(state_), entry.why));
    return {.from = state_,
            .to = state_,
            .actions = {},
            .story = fmt::format("{} ignored: {}", to_string(event.kind), entry.why)};
  }
  story_.clear();
  Step step{
      .from = state_, .to = row->to, .actions = {}, .story = {}, .is_loud = row->volume == Volume::kLoud};
  state_ = row->to;
  step.actions = (this->*row->act)(event, now);
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

std::string_view to_string(EventKind kind) {
  switch (kind) {
    case EventKind::kRoundBegins:
      return "round begins";
    case EventKind::kRendezvousLost:
      return "rendezvous lost";
    case EventKind::kWorkerSpawned:
      return "worker spawned";
    case EventKind::kSpawnFailed:
      return "spawn failed";
    case EventKind::kWorkerExited:
      return "worker exited";
    case EventKind::kSignal:
      return "signal";
    case EventKind::kRoundStopped:
      return "round stopped";
    case EventKind::kLeaseLost:
      return "lease lost";
    case EventKind::kJobEnded:
      return "job ended";
    case EventKind::kRestartGranted:
      return "restart granted";
    case EventKind::kSwept:
      return "swept";
    case EventKind::kBlameOver:
      return "blame deadline";
    case EventKind::kGraceOver:
      return "grace deadline";
    case EventKind::kReapOver:
      return "reap deadline";
    case EventKind::kJobTimeOver:
      return "job deadline";
  }
  return "?";
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
