#include "tests/scenario/membership/sim_agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <variant>

namespace ddprun::membership::testing {
namespace {

using namespace std::chrono_literals;
using launcher::DeadlineKind;

constexpr Duration kGrace = 500ms;
constexpr Duration kBlameWindow = 400ms;
constexpr Duration kKillTime = 30ms;    // from SIGKILL to the end of a process
constexpr Duration kAskedTime = 300ms;  // for helpers that a success left behind

/// DDPRUN_TELL=1 tells everything that happens, to look into one schedule.
void say(TimePoint at, const std::string& host, const std::string& what) {
  static const bool is_told = std::getenv("DDPRUN_TELL") != nullptr;
  if (is_told) fmt::print(stderr, "{:8.4f} {}: {}\n", to_seconds(at - TimePoint{}), host, what);
}

launcher::SupervisorOptions supervisor_options(const WorkerHabits& habits) {
  launcher::SupervisorOptions options;
  options.local_world_size = habits.count;
  options.grace = kGrace;
  options.blame_window = kBlameWindow;
  options.has_peers = true;
  options.sigterm_exit_code = exit_code_of_leaving(SIGTERM);
  options.job_timeout = habits.job_timeout;
  return options;
}

}  // namespace

SimAgent::SimAgent(std::string host, Surroundings& surroundings, WorkerHabits habits, Timing timing)
    : host_(std::move(host)),
      world_(surroundings),
      habits_(habits),
      timing_(timing),
      supervisor_(supervisor_options(habits)) {}

// ---- its loop: what launcher/agent/agent.cc does

void SimAgent::start() {
  is_alive_ = true;
  carry_out(supervisor_.start(world_.clock()));
  world_.connect();
}

void SimAgent::when_awake(const std::function<void()>& act) {
  if (!is_alive_) return;
  if (world_.now() >= asleep_until_) return act();
  world_.in(asleep_until_ - world_.now(), [this, act] { when_awake(act); });
}

void SimAgent::later(Duration delay, const std::function<void()>& act) {
  world_.in(delay, [this, act] { when_awake(act); });
}

void SimAgent::raise(Event event) {
  events_.push_back(std::move(event));
  if (is_handling_) return;
  is_handling_ = true;
  while (is_alive_ && !events_.empty()) {
    const Event next = std::move(events_.front());
    events_.pop_front();
    const launcher::TableEntry entry = launcher::table_entry(supervisor_.state(), next.index());
    if (entry.kind == launcher::TableEntry::Kind::kBug ||
        entry.kind == launcher::TableEntry::Kind::kMissing) {
      world_.promises().broke(fmt::format("{}: {} in state {}: {}", host_, launcher::name_of(next.index()),
                                          launcher::to_string(supervisor_.state()), entry.why));
      break;
    }
    if (std::holds_alternative<launcher::JobTimeOver>(next)) time_over_at_ = world_.now();
    const launcher::Step step = supervisor_.handle(next, world_.clock());
    say(world_.now(), host_,
        fmt::format("{}: {}->{}: {}", launcher::name_of(next.index()), launcher::to_string(step.from),
                    launcher::to_string(step.to), step.story));
    carry_out(step);
  }
  is_handling_ = false;
}

void SimAgent::carry_out(const launcher::Step& step) {
  for (const Action& action : step.actions) carry_out(action);
}

void SimAgent::carry_out(const Action& action) {
  NodeFailure failure;
  if (const auto* const last = std::get_if<launcher::Finish>(&action)) return finish(last->exit_code);
  if (std::holds_alternative<launcher::SpawnWorkers>(action)) return spawn_all();
  if (const auto* const ask = std::get_if<launcher::EndWorkers>(&action)) return signal_workers(*ask);
  if (const auto* const set = std::get_if<launcher::SetDeadline>(&action)) return set_deadline(*set);
  if (const auto* const end = std::get_if<launcher::Sweep>(&action)) return sweep(*end);
  if (std::holds_alternative<launcher::PublishSuccess>(action)) succeeded_ = seat_.generation;
  if (const auto* const failed = std::get_if<launcher::PublishFailure>(&action)) {
    if (!failed->workers.empty() && !failed_in_.contains(seat_.generation) &&
        !left_in_.contains(seat_.generation))
      world_.promises().broke(fmt::format("{} blames a worker that ended because of another", host_));
    failure = launcher::failure_of(*failed, supervisor_);
  }
  failure.host = host_;
  launcher::tell_member(*this, action, failure);
}

void SimAgent::set_deadline(const launcher::SetDeadline& set) {
  const int number = ++deadlines_[set.deadline];
  later(world_.until(set.at), [this, kind = set.deadline, number] {
    if (deadlines_[kind] == number) raise(launcher::expiry_of(kind));
  });
}

void SimAgent::finish(int exit_code) {
  if (running_) world_.promises().broke(fmt::format("{} left while processes of it ran", host_));
  launcher::tell_member(*this, launcher::Finish{}, {});
  leave_connection();
  exit_code_ = exit_code;
  is_alive_ = false;
}

// ---- what happens to it

void SimAgent::die() {
  is_alive_ = false;
  guards_end_processes_with_the_lease();
}

void SimAgent::lose_power() {
  is_alive_ = false;
  processes_ended();
}

void SimAgent::stand_still(Duration time) {
  asleep_until_ = std::max(asleep_until_, world_.now() + time);
  guards_end_processes_with_the_lease();
}

void SimAgent::take_signal(int signal) {
  was_signalled_ = true;
  when_awake([this, signal] { raise(launcher::Signalled{.signal = signal}); });
}

// ---- its workers

void SimAgent::spawn_all() {
  if (running_) {
    return world_.promises().broke(
        fmt::format("{} starts workers of generation {} beside its own of generation {}", host_,
                    seat_.generation, *running_));
  }
  if (seat_.generation <= started_)
    world_.promises().broke(
        fmt::format("{} starts generation {} after {}", host_, seat_.generation, started_));
  started_ = seat_.generation;
  running_ = seat_.generation;
  ++life_;
  has_exited_.assign(static_cast<std::size_t>(habits_.count.value()), false);
  was_asked_ = has_exited_;
  exited_well_ = 0;
  world_.promises().workers_started(host_, seat_.generation, world_.now());
  const int unborn = world_.dice().below(1000) < habits_.failing_permille / 20
                         ? world_.dice().below(habits_.count.value())
                         : habits_.count.value();
  for (int rank = 0; rank < std::min(unborn, habits_.count.value()); ++rank)
    raise(launcher::WorkerSpawned{.local_rank = LocalRank(rank), .pid = 100 + rank});
  if (unborn == habits_.count.value()) return plan_their_lives();
  failed_in_.insert(seat_.generation);
  raise(launcher::SpawnFailed{.local_rank = LocalRank(unborn),
                              .error = Error(ErrorCode::kNotFound, "no such program")});
}

void SimAgent::plan_their_lives() {
  Dice& dice = world_.dice();
  const int count = habits_.count.value();
  if (dice.below(1000) < habits_.failing_permille) {
    exit_in(dice.up_to(800ms), LocalRank(dice.below(count)), ExitStatus::exited(habits_.exit_code));
  } else if (dice.chance(50)) {
    const Duration time = 200ms + dice.up_to(1500ms);
    for (int rank = 0; rank < count; ++rank)
      exit_in(time + dice.up_to(20ms), LocalRank(rank), ExitStatus::exited(0));
  }
}

void SimAgent::exit_in(Duration delay, LocalRank worker, ExitStatus status) {
  later(delay, [this, worker, status, life = life_] {
    const auto index = static_cast<std::size_t>(worker.value());
    if (life != life_ || has_exited_[index]) return;
    has_exited_[index] = true;
    const launcher::State state = supervisor_.state();
    const bool was_let_be = state == launcher::State::kStarting || state == launcher::State::kRunning ||
                            state == launcher::State::kBlaming;
    if (status.is_success() && !was_asked_[index] && ++exited_well_ == habits_.count.value())
      worked_well_in_ = started_;
    if (status.is_success() && !was_asked_[index]) left_in_.insert(seat_.generation);
    if (was_let_be && !status.is_success()) failed_in_.insert(seat_.generation);
    launcher::Ending ending;
    // Of every third life the failures read as if another had caused them.
    if (was_let_be && life_ % 3 == 2) ending.weight = launcher::Weight::kSymptom;
    raise(launcher::WorkerExited{.local_rank = worker, .status = status, .ending = ending});
  });
}

void SimAgent::signal_workers(const launcher::EndWorkers& action) {
  Dice& dice = world_.dice();
  for (const LocalRank worker : action.workers) {
    if (action.signal == SIGKILL) {
      exit_in(dice.up_to(kKillTime), worker, ExitStatus::killed(SIGKILL));
      continue;
    }
    was_asked_[static_cast<std::size_t>(worker.value())] = true;
    if (dice.chance(85)) {
      exit_in(dice.up_to(400ms), worker,
              dice.chance(70) ? ExitStatus::killed(action.signal) : ExitStatus::exited(dice.below(2)));
    }
  }
}

// What is left of a success is asked first.
void SimAgent::sweep(const launcher::Sweep& action) {
  Dice& dice = world_.dice();
  const Duration time =
      dice.chance(70) ? Duration(0ms) : dice.up_to(action.is_at_once ? kKillTime : kAskedTime);
  later(time, [this, number = ++sweeps_] {
    if (number != sweeps_) return;
    processes_ended();
    raise(launcher::Swept{});
  });
}

void SimAgent::processes_ended() {
  if (running_) world_.promises().workers_ended(*running_);
  running_.reset();
}

void SimAgent::guards_end_processes_with_the_lease() {
  if (!running_) return;
  const Duration lease_left = world_.until(core_->lease_until());
  const Duration time = is_alive_ ? lease_left + kKillTime : world_.dice().up_to(lease_left) + kKillTime;
  world_.in(time, [this, life = life_] {
    if (life != life_ || !running_ || (is_alive_ && world_.now() >= asleep_until_)) return;
    processes_ended();
    for (int rank = 0; rank < habits_.count.value(); ++rank)
      exit_in(0ms, LocalRank(rank), ExitStatus::killed(SIGKILL));
  });
}

// ---- its member: what rendezvous/membership/member.cc does around the core

void SimAgent::workers_failed(const NodeFailure& failure) {
  NodeFailure told = failure;
  if (world_.dice().chance(10)) told.final_because = "a restart would not help";
  if (core_) perform(core_->workers_failed(told, world_.clock()));
}

void SimAgent::workers_succeeded() {
  if (core_) perform(core_->workers_succeeded(world_.clock()));
}

void SimAgent::workers_stopped() {
  if (core_) perform(core_->workers_stopped(world_.clock()));
}

void SimAgent::leave(int signal) {
  leaving_signal_ = signal;
  if (core_ && is_joined_) return perform(core_->leave(signal, world_.clock()));
  if (core_ && core_->has_workers()) return;
  end_for_signal();
}

// What came over a connection that is gone by the time it is read, nobody reads.
void SimAgent::when_read(const std::function<void()>& act) {
  when_awake([this, act, connection = connection_] {
    if (connection == connection_) act();
  });
}

void SimAgent::welcome() {
  when_read([this] {
    if (is_joined_ || is_closed_) return;
    is_joined_ = true;
    if (!core_) core_.emplace(timing_, world_.clock());
    perform(core_->connected(world_.clock()));
    if (leaving_signal_ != 0) perform(core_->leave(leaving_signal_, world_.clock()));
  });
}

void SimAgent::order(const Order& order) {
  when_read([this, order] {
    if (!is_joined_) return;
    say(world_.now(), host_,
        fmt::format("is ordered: {} {} (ack {}) {}", to_string(order.kind), order.generation,
                    order.acknowledged, order.text));
    perform(core_->order(order, world_.clock()));
  });
}

void SimAgent::refused(const std::string& reason, bool may_return) {
  when_read([this, reason, may_return] {
    if (is_joined_ && (may_return || core_->has_workers())) {
      leave_connection();
      return perform(core_->given_up(reason, world_.clock()));
    }
    leave_connection();
    if (may_return) return world_.connect();
    if (leaving_signal_ != 0) return end_for_signal();
    tell(RendezvousLost{Error(ErrorCode::kUsage, reason)}, true);
  });
}

void SimAgent::disconnected(const std::string& why) {
  when_read([this, why] {
    if (!is_joined_) return;
    leave_connection();
    say(world_.now(), host_, "is disconnected: " + why);
    perform(core_->disconnected(why, world_.clock()));
  });
}

void SimAgent::perform(const MemberActions& actions) {
  for (const MemberAction& action : actions) {
    if (is_closed_) return;
    std::visit([this](const auto& what) { act(what); }, action);
  }
  if (!is_closed_) wake();
}

void SimAgent::wake() {
  const TimePoint at = core_->next_wake();
  if (at == TimePoint::max()) return;
  const TimePoint real = world_.now() + world_.until(at);
  if (wakes_at_ > world_.now() && wakes_at_ <= real) return;
  wakes_at_ = real;
  later(real - world_.now(), [this] {
    wakes_at_ = TimePoint::max();
    if (!is_closed_) perform(core_->tick(world_.clock()));
  });
}

void SimAgent::act(const SendStatus& send) {
  say(world_.now(), host_,
      fmt::format("says: {} {} {}{}", send.status.sequence, to_string(send.status.phase),
                  send.status.generation, send.status.failure ? " failure" : ""));
  world_.send(send.status);
}

void SimAgent::act(const RoundBegins& start) {
  seat_ = start.round.seat;
  tell(start);
}

void SimAgent::act(const RoundStopped& stop) {
  tell(stop);
  if (habits_.says_idle_too_early) perform(core_->workers_stopped(world_.clock()));
}

void SimAgent::act(const LeaseLost& kill) {
  ++kills_by_lease_;
  tell(kill);
}

// Without dice, so that the schedules of old seeds stay what they were.
void SimAgent::act(const RestartGranted& granted) {
  later(std::max(tells_at_, world_.now()) - world_.now(), [this, granted] { raise(granted); });
}

void SimAgent::act(const ComeBack&) {
  leave_connection();
  if (leaving_signal_ != 0) return end_for_signal();
  later(1ms + world_.dice().up_to(50ms), [this] {
    if (!is_closed_) world_.connect();
  });
}

void SimAgent::act(const JobEnded& leave) {
  leave_connection();
  told_end_ = leave.end;
  tell(leave, true);
}

void SimAgent::leave_connection() {
  ++connection_;
  if (std::exchange(is_joined_, false)) world_.hang_up();
}

// Posted, in order. After the last word there is none.
void SimAgent::tell(Event event, bool is_last) {
  tells_at_ = std::max(tells_at_, world_.now() + world_.dice().up_to(2ms));
  later(tells_at_ - world_.now(), [this, event = std::move(event), is_last] {
    if (is_closed_) return;
    is_closed_ = is_last;
    raise(event);
  });
}

void SimAgent::end_for_signal() {
  tell(JobEnded{{.exit_code = exit_code_of_leaving(leaving_signal_), .why = "told to stop"}}, true);
}

std::string SimAgent::describe() const {
  return fmt::format("{}: {}, {}, {} in generation {}, {}, {}", host_, is_alive_ ? "up" : "down",
                     launcher::to_string(supervisor_.state()),
                     core_ ? to_string(core_->phase()) : "no member",
                     core_ ? core_->generation() : Generation(0),
                     running_ ? fmt::format("workers of {}", *running_) : std::string("no workers"),
                     exit_code_ ? fmt::format("ended with {}", *exit_code_) : std::string("stays"));
}

}  // namespace ddprun::membership::testing
