#include "launcher/agent/supervisor.h"

#include "rendezvous/base/check.h"
#include "rendezvous/base/exit_codes.h"

#include <fmt/format.h>

#include <algorithm>
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

std::string count_workers(std::size_t count) {
  return fmt::format("{} worker{}", count, count == 1 ? "" : "s");
}

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
    const bool may_come = s.options_.joins_after_failure || !s.is_last_alive(event.local_rank);
    return may_come && event.ending.weight != Weight::kCause && s.options_.blame_window > Duration::zero();
  }
  static bool is_cause(const Supervisor&, const Event& event, TimePoint) {
    return !event.status.is_success() && event.ending.weight == Weight::kCause;
  }
  static bool is_last_cause(const Supervisor& s, const Event& event, TimePoint now) {
    return is_cause(s, event, now) && s.is_last_alive(event.local_rank);
  }
  static bool nobody_will_say(const Supervisor& s, const Event& event, TimePoint) {
    return s.is_last_alive(event.local_rank) && !s.options_.joins_after_failure;
  }
  static bool none_alive(const Supervisor& s, const Event&, TimePoint) { return s.alive_count() == 0; }
  static bool is_second_interrupt(const Supervisor& s, const Event& event, TimePoint) {
    return event.signal == SIGINT && s.signals_received_ > 0;
  }
  static bool all_well(const Supervisor& s, const Event&, TimePoint) {
    return s.reason_ == StopReason::kSucceeded;
  }
  static bool well_but_leaving(const Supervisor& s, const Event& event, TimePoint now) {
    return all_well(s, event, now) && s.options_.joins_after_failure && s.signals_received_ > 0;
  }
  // The report that follows begins with this very sentence, unless it has a failure of this node to tell.
  static bool report_says_why(const Supervisor& s, const Event& event, TimePoint) {
    if (event.kind == EventKind::kRoundFailed) return !s.failed_by_itself();
    const bool is_of_others = s.reason_ == StopReason::kSucceeded || s.reason_ == StopReason::kPeerFailed;
    return event.exit_code != 0 && is_of_others;
  }
  static bool restarts_now(const Supervisor& s, const Event&, TimePoint) {
    return s.decision_.restart && s.decision_.delay == Duration::zero();
  }
  static bool restarts_later(const Supervisor& s, const Event&, TimePoint) { return s.decision_.restart; }

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
    {S::kRendezvous,               E::kRoundClosed,   T::is_too_late,        S::kRendezvous, &Do::decline_round,         Volume::kLoud},
    {S::kRendezvous,               E::kRoundClosed,   kAlways,               S::kStarting,  &Do::begin_generation,       Volume::kQuiet},
    {{S::kRendezvous, S::kWaiting, S::kRestarting}, E::kRoundFailed, T::report_says_why, S::kDone, &Do::finish_for_round, Volume::kQuiet},
    {S::kRendezvous,               E::kRoundFailed,   kAlways,               S::kDone,      &Do::finish_for_round,       Volume::kLoud},
    {{S::kRendezvous, S::kRestarting}, E::kJobEnded,  T::report_says_why,    S::kDone,      &Do::finish_for_job_end,     Volume::kQuiet},
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
    {kUp,                          E::kPeerFailed,    T::none_alive,         S::kSweeping,  &Do::stop_for_peer,          Volume::kLoud},
    {kUp,                          E::kPeerFailed,    kAlways,               S::kDraining,  &Do::stop_for_peer,          Volume::kLoud},
    {kUp,                          E::kRoundFailed,   T::none_alive,         S::kSweeping,  &Do::stop_for_round,         Volume::kLoud},
    {kUp,                          E::kRoundFailed,   kAlways,               S::kDraining,  &Do::stop_for_round,         Volume::kLoud},
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
    {S::kBlaming,                  E::kSignal,        T::none_alive,         S::kSweeping,  &Do::stop_for_blame,         Volume::kLoud},
    {S::kBlaming,                  E::kSignal,        kAlways,               S::kDraining,  &Do::stop_for_blame,         Volume::kLoud},
    {S::kBlaming,                  E::kJobTimeOver,   T::none_alive,         S::kSweeping,  &Do::stop_for_blame,         Volume::kLoud},
    {S::kBlaming,                  E::kJobTimeOver,   kAlways,               S::kDraining,  &Do::stop_for_blame,         Volume::kLoud},

    {S::kDraining,                 E::kWorkerExited,  T::is_last,            S::kSweeping,  &Do::note_last_consequence,  Volume::kQuiet},
    {S::kDraining,                 E::kWorkerExited,  kAlways,               S::kDraining,  &Do::note_consequence,       Volume::kQuiet},
    {S::kDraining,                 E::kGraceOver,     kAlways,               S::kKilling,   &Do::kill,                   Volume::kLoud},
    {S::kDraining,                 E::kSignal,        T::is_second_interrupt, S::kKilling,  &Do::kill,                   Volume::kLoud},
    {S::kDraining,                 E::kSignal,        kAlways,               S::kDraining,  &Do::note_signal,            Volume::kLoud},
    {S::kDraining,                 E::kJobTimeOver,   kAlways,               S::kDraining,  &Do::note_job_timeout,       Volume::kQuiet},
    {S::kDraining,                 E::kJobEnded,      kAlways,               S::kDraining,  &Do::note_job_end,           Volume::kQuiet},
    {S::kDraining,                 E::kRoundFailed,   kAlways,               S::kDraining,  &Do::note_round_failed,      Volume::kLoud},
    {S::kDraining,                 E::kLeaseLost,     kAlways,               S::kKilling,   &Do::kill_for_lease,         Volume::kLoud},

    {S::kKilling,                  E::kWorkerExited,  T::is_last,            S::kSweeping,  &Do::note_last_consequence,  Volume::kQuiet},
    {S::kKilling,                  E::kWorkerExited,  kAlways,               S::kKilling,   &Do::note_consequence,       Volume::kQuiet},
    {S::kKilling,                  E::kReapOver,      kAlways,               S::kSweeping,  &Do::give_up_on_stuck,       Volume::kLoud},
    {S::kKilling,                  E::kSignal,        kAlways,               S::kKilling,   &Do::note_signal,            Volume::kQuiet},
    {S::kKilling,                  E::kJobTimeOver,   kAlways,               S::kKilling,   &Do::note_job_timeout,       Volume::kQuiet},
    {S::kKilling,                  E::kJobEnded,      kAlways,               S::kKilling,   &Do::note_job_end,           Volume::kQuiet},
    {S::kKilling,                  E::kRoundFailed,   kAlways,               S::kKilling,   &Do::note_round_failed,      Volume::kLoud},

    {S::kSweeping,                 E::kSwept,         T::well_but_leaving,   S::kDone,      &Do::finish_for_noted_signal, Volume::kLoud},
    {S::kSweeping,                 E::kSwept,         T::all_well,           S::kWaiting,   &Do::publish_success,        Volume::kQuiet},
    {S::kSweeping,                 E::kSwept,         T::restarts_now,       S::kRendezvous, &Do::join_again,            Volume::kQuiet},
    {S::kSweeping,                 E::kSwept,         T::restarts_later,     S::kRestarting, &Do::wait_before_restart,   Volume::kQuiet},
    {S::kSweeping,                 E::kSwept,         kAlways,               S::kDone,      &Do::finish,                 Volume::kQuiet},
    {S::kSweeping,                 E::kWorkerExited,  kAlways,               S::kSweeping,  &Do::note_consequence,       Volume::kQuiet},
    {S::kSweeping,                 E::kSignal,        kAlways,               S::kSweeping,  &Do::note_signal,            Volume::kQuiet},
    {S::kSweeping,                 E::kJobTimeOver,   kAlways,               S::kSweeping,  &Do::note_job_timeout,       Volume::kQuiet},
    {S::kSweeping,                 E::kJobEnded,      kAlways,               S::kSweeping,  &Do::note_job_end,           Volume::kQuiet},
    {S::kSweeping,                 E::kRoundFailed,   kAlways,               S::kSweeping,  &Do::note_round_failed,      Volume::kLoud},
    {S::kSweeping,                 E::kPeerFailed,    kAlways,               S::kSweeping,  &Do::note_peer,              Volume::kQuiet},
    {S::kSweeping,                 E::kLeaseLost,     kAlways,               S::kSweeping,  &Do::note_peer,              Volume::kQuiet},

    {S::kWaiting,                  E::kJobEnded,      kAlways,               S::kDone,      &Do::finish_for_job_end,     Volume::kQuiet},
    {S::kWaiting,                  E::kLeaseLost,     kAlways,               S::kRendezvous, &Do::join_after_success,    Volume::kLoud},
    {S::kWaiting,                  E::kPeerFailed,    kAlways,               S::kRendezvous, &Do::join_after_success,    Volume::kLoud},
    {S::kWaiting,                  E::kRoundFailed,   kAlways,               S::kDone,      &Do::finish_for_round,       Volume::kLoud},
    {S::kWaiting,                  E::kSignal,        kAlways,               S::kDone,      &Do::finish_for_signal,      Volume::kLoud},
    {S::kWaiting,                  E::kJobTimeOver,   kAlways,               S::kDone,      &Do::finish_for_job_timeout, Volume::kLoud},

    {S::kRestarting,               E::kBackoffOver,   kAlways,               S::kRendezvous, &Do::join_again,            Volume::kQuiet},
    {S::kRestarting,               E::kSignal,        kAlways,               S::kDone,      &Do::finish_for_signal,      Volume::kLoud},
    {S::kRestarting,               E::kJobTimeOver,   kAlways,               S::kDone,      &Do::finish_for_job_timeout, Volume::kLoud},
    {S::kRestarting,               E::kRoundFailed,   kAlways,               S::kDone,      &Do::finish_for_round,       Volume::kLoud},
    {S::kRestarting,               E::kJobEnded,      kAlways,               S::kDone,      &Do::finish_for_job_end,     Volume::kLoud},
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
    {S::kRendezvous,                                       E::kPeerFailed,    kIgnored, "it belongs to a round we are not in"},
    {S::kRendezvous,                                       E::kLeaseLost,     kIgnored, kNoWorkers},
    {S::kRendezvous,                                       E::kSwept,         kBug,     kNotAsked},
    {S::kRendezvous,                                       E::kBlameOver,     kIgnored, kLateTimer},
    {S::kRendezvous,                                       E::kGraceOver,     kIgnored, kLateTimer},
    {S::kRendezvous,                                       E::kReapOver,      kIgnored, kLateTimer},
    {S::kRendezvous,                                       E::kBackoffOver,   kIgnored, kLateTimer},

    {kUp,                                                  E::kRoundClosed,   kBug,     "we are in a round"},
    {S::kBlaming,                                          E::kWorkerSpawned, kBug,     "spawning ends when a worker fails"},
    {S::kBlaming,                                          E::kSpawnFailed,   kBug,     "spawning ends when a worker fails"},
    {{S::kStarting, S::kRunning},                          E::kBlameOver,     kIgnored, kLateTimer},
    {S::kRunning,                                          E::kWorkerSpawned, kBug,     kNotAsked},
    {S::kRunning,                                          E::kSpawnFailed,   kBug,     kNotAsked},
    {kUp,                                                  E::kSwept,         kBug,     kNotAsked},
    {kUp,                                                  E::kGraceOver,     kIgnored, kLateTimer},
    {kUp,                                                  E::kReapOver,      kIgnored, kLateTimer},
    {kUp,                                                  E::kBackoffOver,   kIgnored, kLateTimer},

    {{S::kDraining, S::kKilling, S::kSweeping},            E::kRoundClosed,   kBug,     "we did not join"},
    {{S::kDraining, S::kKilling, S::kSweeping},            E::kWorkerSpawned, kBug,     "spawning ends when the group is stopped"},
    {{S::kDraining, S::kKilling, S::kSweeping},            E::kSpawnFailed,   kBug,     "spawning ends when the group is stopped"},
    {{S::kDraining, S::kKilling},                          E::kPeerFailed,    kIgnored, "the group is being stopped already"},
    {S::kKilling,                                          E::kLeaseLost,     kIgnored, "nothing of ours goes on as it is"},
    {{S::kDraining, S::kKilling},                          E::kSwept,         kBug,     kNotAsked},
    {{S::kDraining, S::kKilling, S::kSweeping},            E::kBlameOver,     kIgnored, kLateTimer},
    {{S::kKilling, S::kSweeping},                          E::kGraceOver,     kIgnored, kLateTimer},
    {{S::kDraining, S::kSweeping},                         E::kReapOver,      kIgnored, kLateTimer},
    {{S::kDraining, S::kKilling, S::kSweeping},            E::kBackoffOver,   kIgnored, kLateTimer},

    {{S::kWaiting, S::kRestarting},                        E::kRoundClosed,   kBug,     "we did not join"},
    {{S::kWaiting, S::kRestarting},                        E::kWorkerSpawned, kBug,     kNoWorkers},
    {{S::kWaiting, S::kRestarting},                        E::kSpawnFailed,   kBug,     kNoWorkers},
    {S::kWaiting,                                          E::kWorkerExited,  kBug,     kNoWorkers},
    {S::kRestarting,                                       E::kWorkerExited,  kIgnored, "a worker given up as stuck has ended at last"},
    {S::kRestarting,                                       E::kPeerFailed,    kIgnored, "the round is over for us"},
    {S::kRestarting,                                       E::kLeaseLost,     kIgnored, kNoWorkers},
    {{S::kWaiting, S::kRestarting},                        E::kSwept,         kBug,     kNotAsked},
    {{S::kWaiting, S::kRestarting},                        E::kBlameOver,     kIgnored, kLateTimer},
    {{S::kWaiting, S::kRestarting},                        E::kGraceOver,     kIgnored, kLateTimer},
    {{S::kWaiting, S::kRestarting},                        E::kReapOver,      kIgnored, kLateTimer},
    {S::kWaiting,                                          E::kBackoffOver,   kIgnored, kLateTimer},

    {S::kDone,                                             E::kRoundClosed,   kIgnored, "the job is over"},
    {S::kDone,                                             E::kRoundFailed,   kIgnored, "the job is over"},
    {S::kDone,                                             E::kWorkerSpawned, kBug,     kNoWorkers},
    {S::kDone,                                             E::kSpawnFailed,   kBug,     kNoWorkers},
    {S::kDone,                                             E::kWorkerExited,  kIgnored, "a worker given up as stuck has ended at last"},
    {S::kDone,                                             E::kSignal,        kIgnored, "the job is over"},
    {S::kDone,                                             E::kPeerFailed,    kIgnored, "the job is over"},
    {S::kDone,                                             E::kLeaseLost,     kIgnored, "the job is over"},
    {S::kDone,                                             E::kJobEnded,      kIgnored, "the job is over"},
    {S::kDone,                                             E::kSwept,         kBug,     kNotAsked},
    {S::kDone,                                             E::kBlameOver,     kIgnored, "the job is over"},
    {S::kDone,                                             E::kGraceOver,     kIgnored, kLateTimer},
    {S::kDone,                                             E::kReapOver,      kIgnored, kLateTimer},
    {S::kDone,                                             E::kBackoffOver,   kIgnored, kLateTimer},
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

Supervisor::Supervisor(SupervisorOptions options)
    : options_(std::move(options)), policy_(options_.restarts) {}

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

int Supervisor::alive_count() const {
  return static_cast<int>(
      std::count_if(workers_.begin(), workers_.end(), [](const auto& w) { return w.is_alive; }));
}

bool Supervisor::is_last_alive(LocalRank worker) const {
  const auto index = static_cast<std::size_t>(worker.value());
  return alive_count() == 1 && workers_[index].is_alive;
}

std::vector<LocalRank> Supervisor::alive() const {
  std::vector<LocalRank> result;
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    if (workers_[index].is_alive) result.emplace_back(static_cast<int>(index));
  }
  return result;
}

SupervisedWorker& Supervisor::worker(LocalRank local_rank) {
  const auto index = static_cast<std::size_t>(local_rank.value());
  DDPRUN_CHECK(index < workers_.size(), "a local rank is below the local world size");
  return workers_[index];
}

Supervisor::Actions Supervisor::begin_generation(const Event& event, TimePoint now) {
  workers_.assign(static_cast<std::size_t>(options_.local_world_size.value()), SupervisedWorker{});
  int rank = event.base_rank.value();
  for (SupervisedWorker& fresh : workers_) fresh.rank = Rank(rank++);
  restart_count_ = event.restart_count;
  generation_started_ = now;
  reason_ = StopReason::kSucceeded;
  why_.clear();
  root_cause_.reset();
  error_.reset();
  exit_code_ = exit_code::kOk;
  final_because_.clear();
  decision_ = {};
  story_ = "starting " + count_workers(workers_.size());
  return {{.kind = ActionKind::kSpawn}};
}

Supervisor::Actions Supervisor::note_spawned(const Event& event, TimePoint now) {
  SupervisedWorker& spawned = worker(event.local_rank);
  spawned.pid = event.pid;
  spawned.is_alive = true;
  spawned.started_at = now;
  if (state_ == State::kRunning) story_ = count_workers(workers_.size()) + " running";
  return {};
}

void Supervisor::record_exit(const Event& event, TimePoint now) {
  SupervisedWorker& ended = worker(event.local_rank);
  ended.is_alive = false;
  ended.status = event.status;
  ended.ending = event.ending;
  ended.ended_at = now;
  ended.stopped_with = signal_before(ended, event.status);
  const bool was_stopped = ended.stopped_with.has_value() || reason_ != StopReason::kSucceeded;
  ended.verdict = event.status.is_success() ? Verdict::kSucceeded : Verdict::kConsequence;
  story_ = describe_end(ended);
  if (was_stopped && !event.status.is_success()) story_ += " (consequence)";
}

bool Supervisor::blames_symptom() const {
  if (!root_cause_) return false;
  const SupervisedWorker& guilty = workers_[static_cast<std::size_t>(root_cause_->value())];
  return guilty.ending.weight != Weight::kCause;
}

void Supervisor::accuse(Blame blame) {
  if (root_cause_) worker(*root_cause_).verdict = Verdict::kConsequence;
  root_cause_ = blame.guilty;
  SupervisedWorker& guilty = worker(blame.guilty);
  guilty.verdict = Verdict::kRootCause;
  set_reason(StopReason::kWorkerFailed, std::move(blame.why), blame.exit_code.value_or(exit_code_));
  if (!blame.exit_code) return;
  final_because_.clear();
  const std::vector<int>& finals = options_.no_restart_exit_codes;
  const int code = guilty.status->code();
  if (std::find(finals.begin(), finals.end(), code) != finals.end()) {
    call_final(
        fmt::format("exit code {} means that a restart will not help (--no-restart-exit-codes)", code));
  }
}

// The group is being stopped, and one more has ended.
Supervisor::Actions Supervisor::reconsider(LocalRank ended) {
  const SupervisedWorker& failed = worker(ended);
  if (reason_ == StopReason::kPeerFailed && is_own_cause(failed)) {
    // The other node's failure may be a symptom of ours; who has seen both decides. Where none of our signals
    // can be behind it, this node has failed by itself, whoever hears of it.
    if (!failed.stopped_with) accuse({ended, describe_end(failed), failed.status->exit_code()});
    return {{.kind = ActionKind::kPublishFailure,
             .worker = ended,
             .exit_code = std::max(1, failed.status->exit_code()),
             .text = describe_end(failed)}};
  }
  if (reason_ != StopReason::kWorkerFailed || !root_cause_) return {};
  std::optional<Blame> better = launcher::reconsider(workers_, *root_cause_, ended);
  if (!better) return {};
  accuse(std::move(*better));
  story_ += "; it had failed before";
  return {{.kind = ActionKind::kPublishFailure,
           .worker = ended,
           .exit_code = exit_code_,
           .text = why_,
           .final_because = final_because_}};
}

Supervisor::Actions Supervisor::note_exit(const Event& event, TimePoint now) {
  record_exit(event, now);
  return {};
}

Supervisor::Actions Supervisor::note_last_success(const Event& event, TimePoint now) {
  record_exit(event, now);
  story_ += "; all workers succeeded";
  return sweep(now);
}

void Supervisor::set_reason(StopReason reason, std::string why, int exit_code) {
  reason_ = reason;
  why_ = std::move(why);
  exit_code_ = exit_code;
  story_ = why_;
}

// Another node ended the round when nothing of ours was left to be stopped.
void Supervisor::set_peer_reason(const Event& event) {
  set_reason(StopReason::kPeerFailed, event.text, event.exit_code);
  if (restart_forbidden_.empty())
    decision_ = {.restart = true, .delay = {}, .why = "the coordinator decides"};
}

Supervisor::Actions Supervisor::stop_for_exit(const Event& event, TimePoint now) {
  record_exit(event, now);
  accuse(blame(workers_));
  return stop_group(SIGTERM, now);
}

Supervisor::Actions Supervisor::wait_for_cause(const Event& event, TimePoint now) {
  record_exit(event, now);
  story_ += fmt::format("; waiting up to {:.1f} s for the cause", to_seconds(options_.blame_window));
  return {{.kind = ActionKind::kSetDeadline,
           .deadline = DeadlineKind::kBlame,
           .at = now + options_.blame_window}};
}

Supervisor::Actions Supervisor::note_symptom(const Event& event, TimePoint now) {
  record_exit(event, now);
  return {};
}

Supervisor::Actions Supervisor::stop_for_blame(const Event& event, TimePoint now) {
  accuse(blame(workers_));
  Actions actions;
  if (event.kind == EventKind::kSignal) {
    ++signals_received_;
    noted_signal_ = event;
    forbid_restart(fmt::format("the launcher received {}", signal_name(event.signal)));
    actions.push_back({.kind = ActionKind::kPublishLeaving, .signal = event.signal});
  } else if (event.kind == EventKind::kJobTimeOver) {
    call_final("--job-timeout is over");
  }
  const Actions stopping = stop_group(SIGTERM, now);
  actions.insert(actions.end(), stopping.begin(), stopping.end());
  return actions;
}

Supervisor::Actions Supervisor::stop_for_spawn(const Event& event, TimePoint now) {
  worker(event.local_rank).spawn_error = event.error;
  worker(event.local_rank).verdict = Verdict::kRootCause;
  root_cause_ = event.local_rank;
  set_reason(
      StopReason::kSpawnFailed,
      fmt::format("{} could not be started: {}", name_of(worker(event.local_rank)), event.error.message()),
      to_exit_code(event.error.code()));
  // What the machine had not enough of this time it may have the next time.
  const ErrorCode code = event.error.code();
  if (code == ErrorCode::kNotFound || code == ErrorCode::kCannotExecute) {
    call_final("a program that cannot be started will not start the next time");
  }
  return stop_group(SIGTERM, now);
}

Supervisor::Actions Supervisor::stop_for_signal(const Event& event, TimePoint now) {
  ++signals_received_;
  stop_signal_ = event.signal;
  set_reason(StopReason::kSignal, fmt::format("received {}{}", signal_name(event.signal), event.text),
             code_of_signal(event));
  forbid_restart(fmt::format("the launcher received {}", signal_name(event.signal)));
  return stop_group(event.signal, now);
}

Supervisor::Actions Supervisor::stop_for_job_timeout(const Event&, TimePoint now) {
  set_reason(
      StopReason::kJobTimeout,
      fmt::format("the job is not done after {:.1f} s (--job-timeout)", to_seconds(*options_.job_timeout)),
      exit_code::kTempFail);
  call_final("--job-timeout is over");
  return stop_group(SIGTERM, now);
}

Supervisor::Actions Supervisor::stop_for_peer(const Event& event, TimePoint now) {
  set_reason(StopReason::kPeerFailed, event.text, event.exit_code);
  return stop_group(SIGTERM, now);
}

Supervisor::Actions Supervisor::stop_for_round(const Event& event, TimePoint now) {
  error_ = event.error;
  set_reason(StopReason::kRendezvousFailed, event.error.message(), to_exit_code(event.error.code()));
  forbid_restart("the rendezvous is lost");
  return stop_group(SIGTERM, now);
}

Supervisor::Actions Supervisor::stop_for_job_end(const Event& event, TimePoint now) {
  set_reason(StopReason::kPeerFailed, event.text, event.exit_code);
  note_end(event.text);
  return stop_group(SIGTERM, now);
}

// The common part of every stop: tell the other nodes, ask our workers to end, and give them until the
// deadline.
Supervisor::Actions Supervisor::stop_group(int signal, TimePoint now) {
  Actions actions;
  if (reason_ == StopReason::kSignal) {
    actions.push_back({.kind = ActionKind::kPublishLeaving, .signal = stop_signal_});
  } else if (reason_ != StopReason::kPeerFailed && reason_ != StopReason::kRendezvousFailed) {
    actions.push_back({.kind = ActionKind::kPublishFailure,
                       .exit_code = exit_code_,
                       .text = why_,
                       .final_because = final_because_});
  }
  const std::vector<LocalRank> targets = alive();
  if (targets.empty()) {
    const Actions last = sweep(now);
    actions.insert(actions.end(), last.begin(), last.end());
    return actions;
  }
  for (const LocalRank target : targets) worker(target).stopped_with = signal;
  story_ += fmt::format("; sending {} to {}, {:.1f} s of grace", signal_name(signal),
                        count_workers(targets.size()), to_seconds(options_.grace));
  actions.push_back({.kind = ActionKind::kSignalGroups, .workers = targets, .signal = signal});
  actions.push_back(
      {.kind = ActionKind::kSetDeadline, .deadline = DeadlineKind::kGrace, .at = now + options_.grace});
  return actions;
}

Supervisor::Actions Supervisor::note_consequence(const Event& event, TimePoint now) {
  record_exit(event, now);
  return reconsider(event.local_rank);
}

Supervisor::Actions Supervisor::note_last_consequence(const Event& event, TimePoint now) {
  record_exit(event, now);
  Actions actions = reconsider(event.local_rank);
  const Actions last = sweep(now);
  actions.insert(actions.end(), last.begin(), last.end());
  return actions;
}

Supervisor::Actions Supervisor::note_signal(const Event& event, TimePoint) {
  ++signals_received_;
  noted_signal_ = event;
  if (reason_ == StopReason::kSucceeded) {
    story_ = fmt::format("received {}{} when all was done", signal_name(event.signal), event.text);
    return {};
  }
  forbid_restart(fmt::format("the launcher received {}", signal_name(event.signal)));
  if (reason_ == StopReason::kPeerFailed) exit_code_ = code_of_signal(event);
  story_ = fmt::format("received {}{} while stopping: there will be no restart{}", signal_name(event.signal),
                       event.text, state_ == State::kDraining ? "; Ctrl-C kills the workers at once" : "");
  return {{.kind = ActionKind::kPublishLeaving, .signal = event.signal}};
}

Supervisor::Actions Supervisor::note_job_timeout(const Event&, TimePoint) {
  forbid_restart("--job-timeout is over");
  story_ = "the job's time is over while it is being stopped: there will be no restart";
  return {};
}

Supervisor::Actions Supervisor::note_job_end(const Event& event, TimePoint) {
  note_end(event.text);
  exit_code_ = event.exit_code;
  story_ = event.text;
  return {};
}

// What our workers reached counts no more: the others start again, and so do we. When the lease is lost, what
// the workers left behind gets no time.
Supervisor::Actions Supervisor::note_peer(const Event& event, TimePoint) {
  if (reason_ != StopReason::kSucceeded) {
    story_ = "nothing of ours goes on as it is";
    return {};
  }
  set_peer_reason(event);
  Actions actions;
  if (signals_received_ > 0) {
    forbid_restart(fmt::format("the launcher received {}", signal_name(noted_signal_.signal)));
    exit_code_ = code_of_signal(noted_signal_);
    actions.push_back({.kind = ActionKind::kPublishLeaving, .signal = noted_signal_.signal});
  }
  if (event.kind == EventKind::kLeaseLost) actions.push_back({.kind = ActionKind::kSweep});
  return actions;
}

Supervisor::Actions Supervisor::note_round_failed(const Event& event, TimePoint) {
  error_ = event.error;
  if (reason_ == StopReason::kSucceeded || reason_ == StopReason::kPeerFailed) {
    set_reason(StopReason::kRendezvousFailed, event.error.message(), to_exit_code(event.error.code()));
  }
  forbid_restart("the rendezvous is lost");
  story_ = event.error.message();
  return {};
}

Supervisor::Actions Supervisor::kill(const Event& event, TimePoint now) {
  if (event.kind != EventKind::kSignal) {
    return kill_group(fmt::format("{:.1f} s of grace are over", to_seconds(options_.grace)), now);
  }
  ++signals_received_;
  forbid_restart(fmt::format("the launcher received {}", signal_name(event.signal)));
  return kill_group(fmt::format("received {}{} a second time", signal_name(event.signal), event.text), now);
}

Supervisor::Actions Supervisor::kill_for_lease(const Event& event, TimePoint now) {
  if (reason_ == StopReason::kSucceeded) set_reason(StopReason::kPeerFailed, event.text, event.exit_code);
  return kill_group(event.text, now);
}

Supervisor::Actions Supervisor::kill_group(const std::string& cause, TimePoint now) {
  const std::vector<LocalRank> targets = alive();
  std::string names;
  for (const LocalRank target : targets) {
    worker(target).asked_with = std::exchange(worker(target).stopped_with, SIGKILL);
    names += fmt::format(" {}", worker(target).rank);
  }
  story_ = fmt::format("{}; sending SIGKILL to rank{}{}", cause, targets.size() == 1 ? "" : "s", names);
  return {
      {.kind = ActionKind::kSignalGroups, .workers = targets, .signal = SIGKILL},
      {.kind = ActionKind::kSetDeadline, .deadline = DeadlineKind::kReap, .at = now + options_.reap_limit}};
}

Supervisor::Actions Supervisor::give_up_on_stuck(const Event&, TimePoint now) {
  const std::vector<LocalRank> stuck = alive();
  std::string names;
  for (const LocalRank target : stuck) {
    worker(target).is_alive = false;
    worker(target).verdict = Verdict::kNotEnded;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(worker(target)));
  }
  forbid_restart(fmt::format("{} did not end on SIGKILL", names));
  story_ =
      fmt::format("{} did not end within {:.1f} s of SIGKILL: stuck in the kernel; leaving without waiting",
                  names, to_seconds(options_.reap_limit));
  Actions actions{{.kind = ActionKind::kNameStuck, .workers = stuck}};
  const Actions last = sweep(now);
  actions.insert(actions.end(), last.begin(), last.end());
  return actions;
}

Supervisor::Actions Supervisor::sweep(TimePoint now) {
  if (reason_ != StopReason::kSucceeded && restart_forbidden_.empty()) {
    decision_ = options_.joins_after_failure
                    ? membership::RestartDecision{.restart = true, .why = "the coordinator decides"}
                    : policy_.decide(now - generation_started_, now);
  }
  return {{.kind = ActionKind::kSweep}};
}

// Of several nodes the coordinator ends the job, on all of them.
void Supervisor::call_final(std::string why) {
  final_because_ = std::move(why);
  if (!options_.joins_after_failure) forbid_restart(final_because_);
}

void Supervisor::forbid_restart(std::string why) {
  if (restart_forbidden_.empty()) restart_forbidden_ = std::move(why);
  decision_ = {.restart = false, .delay = {}, .why = restart_forbidden_};
}

// The coordinator's word, in which the reasons of all nodes are.
void Supervisor::note_end(std::string why) {
  end_is_told_ = end_is_told_ || restart_forbidden_.empty();
  forbid_restart(std::move(why));
}

int Supervisor::code_of_signal(const Event& event) const {
  if (event.exit_code != 0) return event.exit_code;
  return event.signal == SIGTERM ? options_.sigterm_exit_code : exit_code::kSignalBase + event.signal;
}

Supervisor::Actions Supervisor::publish_success(const Event&, TimePoint) {
  story_ = "nothing is left of our workers";
  return {{.kind = ActionKind::kPublishSuccess}};
}

Supervisor::Actions Supervisor::join_again(const Event&, TimePoint) {
  story_ = "starting again: " + decision_.why;
  return {{.kind = ActionKind::kJoinRound, .restart_count = policy_.restart_count()}};
}

// We stood still, or were busy, since it was agreed on.
Supervisor::Actions Supervisor::decline_round(const Event&, TimePoint) {
  story_ = "the round was agreed on too long ago: the others may have gone on; joining again";
  return {{.kind = ActionKind::kJoinRound, .restart_count = policy_.restart_count()}};
}

Supervisor::Actions Supervisor::join_after_success(const Event& event, TimePoint) {
  set_peer_reason(event);
  return {{.kind = ActionKind::kJoinRound, .restart_count = policy_.restart_count()}};
}

Supervisor::Actions Supervisor::wait_before_restart(const Event&, TimePoint now) {
  story_ = decision_.why;
  return {
      {.kind = ActionKind::kSetDeadline, .deadline = DeadlineKind::kBackoff, .at = now + decision_.delay}};
}

Supervisor::Actions Supervisor::finish(const Event&, TimePoint) {
  story_ = decision_.why;
  return {{.kind = ActionKind::kFinish, .exit_code = exit_code_}};
}

Supervisor::Actions Supervisor::finish_for_signal(const Event& event, TimePoint) {
  ++signals_received_;
  stop_signal_ = event.signal;
  set_reason(StopReason::kSignal, fmt::format("received {}{}", signal_name(event.signal), event.text),
             code_of_signal(event));
  forbid_restart(fmt::format("the launcher received {}", signal_name(event.signal)));
  return {{.kind = ActionKind::kPublishLeaving, .signal = event.signal},
          {.kind = ActionKind::kFinish, .exit_code = exit_code_}};
}

Supervisor::Actions Supervisor::finish_for_noted_signal(const Event&, TimePoint now) {
  const Actions leaving = finish_for_signal(noted_signal_, now);
  Actions actions{{.kind = ActionKind::kPublishSuccess}};
  actions.insert(actions.end(), leaving.begin(), leaving.end());
  return actions;
}

Supervisor::Actions Supervisor::finish_for_job_timeout(const Event&, TimePoint) {
  set_reason(
      StopReason::kJobTimeout,
      fmt::format("the job is not done after {:.1f} s (--job-timeout)", to_seconds(*options_.job_timeout)),
      exit_code::kTempFail);
  forbid_restart("--job-timeout is over");
  return {{.kind = ActionKind::kFinish, .exit_code = exit_code_}};
}

// What this node's last generation ended of.
bool Supervisor::failed_by_itself() const {
  return reason_ == StopReason::kSpawnFailed || reason_ == StopReason::kJobTimeout ||
         (reason_ == StopReason::kWorkerFailed && !blames_symptom());
}

// Whoever is to be asked what follows cannot be found: that is no other end than the one it has come to.
Supervisor::Actions Supervisor::finish_for_round(const Event& event, TimePoint) {
  error_ = event.error;
  if (failed_by_itself()) {
    story_ = event.error.message();
    forbid_restart(event.error.message());
    return {{.kind = ActionKind::kFinish, .exit_code = exit_code_}};
  }
  set_reason(StopReason::kRendezvousFailed, event.error.message(), to_exit_code(event.error.code()));
  decision_ = {};
  return {{.kind = ActionKind::kFinish, .exit_code = exit_code_}};
}

Supervisor::Actions Supervisor::finish_for_job_end(const Event& event, TimePoint) {
  if (event.exit_code == 0) {
    set_reason(StopReason::kSucceeded, {},
               exit_code::kOk);  // also when the others succeeded without us at last
    decision_ = {};
  } else {
    if (reason_ == StopReason::kSucceeded) set_reason(StopReason::kPeerFailed, event.text, event.exit_code);
    exit_code_ = event.exit_code;
    decision_.why = event.text;
  }
  story_ = event.exit_code == 0 ? "the job succeeded" : event.text;
  return {{.kind = ActionKind::kFinish, .exit_code = exit_code_}};
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
    case State::kRestarting:
      return "restarting";
    case State::kDone:
      return "done";
  }
  return "?";
}

std::string_view to_string(EventKind kind) {
  switch (kind) {
    case EventKind::kRoundClosed:
      return "round closed";
    case EventKind::kRoundFailed:
      return "round failed";
    case EventKind::kWorkerSpawned:
      return "worker spawned";
    case EventKind::kSpawnFailed:
      return "spawn failed";
    case EventKind::kWorkerExited:
      return "worker exited";
    case EventKind::kSignal:
      return "signal";
    case EventKind::kPeerFailed:
      return "peer failed";
    case EventKind::kLeaseLost:
      return "lease lost";
    case EventKind::kJobEnded:
      return "job ended";
    case EventKind::kSwept:
      return "swept";
    case EventKind::kBlameOver:
      return "blame deadline";
    case EventKind::kGraceOver:
      return "grace deadline";
    case EventKind::kReapOver:
      return "reap deadline";
    case EventKind::kBackoffOver:
      return "back-off deadline";
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
    case DeadlineKind::kBackoff:
      return "back-off";
    case DeadlineKind::kJob:
      return "job";
    case DeadlineKind::kBlame:
      return "blame";
  }
  return "?";
}

}  // namespace ddprun::launcher
