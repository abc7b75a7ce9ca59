#include "tests/scenario/membership/simulation.h"

#include "rendezvous/base/check.h"
#include "rendezvous/membership/job.h"
#include "rendezvous/membership/member_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

namespace ddprun::membership::testing {
namespace {

using namespace std::chrono_literals;

/// Small, fast and the same everywhere (Steele et al., "Fast splittable pseudorandom number generators",
/// 2014).
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  int below(int limit) { return static_cast<int>(next() % static_cast<std::uint64_t>(limit)); }
  bool chance(int percent) { return below(100) < percent; }
  Duration up_to(Duration limit) {
    return Duration(static_cast<Duration::rep>(next() % static_cast<std::uint64_t>(limit.count() + 1)));
  }

 private:
  std::uint64_t state_;
};

struct Host {
  std::string name;
  bool is_up = false;
  bool sends = true;    ///< its messages reach the coordinator
  bool hears = true;    ///< the coordinator's reach it
  int incarnation = 0;  ///< events of an earlier life are void
  std::optional<MemberCore> core;
  MemberId id;
  std::optional<MemberId> was;
  bool was_welcomed = false;
  Duration clock_ahead{};               ///< its clock minus true time
  std::optional<Generation> running;    ///< generation of the workers that are alive
  std::optional<Generation> succeeded;  ///< generation in which its workers exited with 0
  int worker_life = 0;
  std::optional<JobEnd> left;
  TimePoint wakes_at = TimePoint::max();
};

class Schedule {
 public:
  Schedule(std::uint64_t seed, ScheduleStats& stats) : dice_(seed), stats_(stats) { set_the_stage(); }

  std::string play() {
    while (broken_.empty() && !events_.empty() && now_ < ends_at_) {
      const Event event = events_.top();
      events_.pop();
      now_ = std::max(now_, event.at);
      event.act();
      check_one_generation();
      note_work();
    }
    if (broken_.empty()) check_progress();
    stats_.generations = static_cast<int>(job_->generation().value());
    stats_.ended = job_->state() == JobState::kEnded;
    return broken_;
  }

 private:
  struct Event {
    TimePoint at;
    std::uint64_t order;
    std::function<void()> act;
    bool operator<(const Event& other) const {
      return std::pair(at, order) > std::pair(other.at, other.order);
    }
  };

  void in(Duration delay, std::function<void()> act) {
    events_.push({now_ + delay, ++event_count_, std::move(act)});
  }

  void set_the_stage() {
    const int hosts = dice_.chance(1) ? 20 + dice_.below(100) : 1 + dice_.below(6);
    spec_.max_nodes = 1 + dice_.below(hosts);
    spec_.min_nodes = dice_.chance(40) ? spec_.max_nodes : 1 + dice_.below(spec_.max_nodes);
    spec_.max_restarts = dice_.below(4);
    timing_.heartbeat = 100ms;
    timing_.debounce = dice_.up_to(200ms);
    timing_.join_timeout = 3s;
    timing_.missed_heartbeats = 5;
    job_.emplace(spec_, timing_, now_);
    const bool pinned = dice_.chance(30);
    hosts_.resize(static_cast<std::size_t>(hosts));
    for (int i = 0; i < hosts; ++i) {
      hosts_[index(i)].name = fmt::format("node{}", i);
      if (pinned && i < spec_.max_nodes) pins_[i] = NodeRank(i);
      in(dice_.up_to(300ms), [this, i] { boot(i); });
    }
    const int calm_percent = dice_.below(4) == 0 ? 100 : 30;
    drop_percent_ = dice_.chance(calm_percent) ? 0 : dice_.below(30);
    duplicate_percent_ = dice_.chance(50) ? 0 : dice_.below(30);
    max_delay_ = dice_.chance(70) ? Duration(2ms) : Duration(80ms);
    const int faults = dice_.chance(20) ? 0 : 1 + dice_.below(6);
    for (int i = 0; i < faults; ++i) in(dice_.up_to(kFaultTime), [this] { strike(); });
    in(kFaultTime, [this] { heal(); });
    in(0ms, [this] { tick_job(); });
  }

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  TimePoint clock_of(const Host& host) const { return now_ + host.clock_ahead; }
  TimePoint job_clock() const { return now_ + job_clock_ahead_; }

  // ---- hosts
  // --------------------------------------------------------------------------------------------------------

  void boot(int i) {
    Host& host = hosts_[index(i)];
    if (host.is_up) return;
    host.is_up = true;
    host.left.reset();
    ++host.incarnation;
    host.was.reset();
    host.wakes_at = TimePoint::max();
    host.core.emplace(timing_, clock_of(host));
    connect(i);
  }

  void connect(int i) {
    Host& host = hosts_[index(i)];
    host.id = MemberId(++last_member_);
    host.was_welcomed = false;
    knock(i, host.id);
    perform(i, host.core->connected(clock_of(host)));
  }

  /// A real connection is retried until it stands; here the hello is sent again until an answer comes.
  void knock(int i, MemberId id) {
    Host& host = hosts_[index(i)];
    if (!host.is_up || host.id != id || host.was_welcomed || host.left) return;
    NodeFacts facts{
        .id = id, .host = host.name, .address = {}, .local_world_size = LocalWorldSize(1 + i % 3)};
    if (const auto pin = pins_.find(i); pin != pins_.end()) facts.pinned = pin->second;
    facts.replaces = host.was;
    to_job(i, [this, facts] {
      if (!known_.insert({facts.id, true}).second) return;
      perform(job_->joined(facts, job_clock()));
    });
    in(60ms, [this, i, id] { knock(i, id); });
  }

  void power_off(int i, bool kernel_closes) {
    Host& host = hosts_[index(i)];
    if (!host.is_up) return;
    ++stats_.crashes;
    host.is_up = false;
    ++host.incarnation;
    end_workers(host);
    if (kernel_closes) {
      const MemberId id = host.id;
      to_job(
          i, [this, id] { perform(job_->lost(id, Loss::kClosed, job_clock())); }, Delivery::kInOrder);
    }
  }

  void start_workers(int i, const Seat& seat) {
    Host& host = hosts_[index(i)];
    if (host.running) broken_ = fmt::format("{} was told to start workers while workers ran", host.name);
    host.running = seat.generation;
    const int life = ++host.worker_life;
    const int incarnation = host.incarnation;
    if (dice_.chance(30)) {
      in(dice_.up_to(800ms), [this, i, life, incarnation] { fail_workers(i, life, incarnation); });
    } else if (dice_.chance(50)) {
      in(200ms + dice_.up_to(1500ms), [this, i, life, incarnation] { succeed(i, life, incarnation); });
    }
  }

  bool lives(int i, int life, int incarnation) {
    const Host& host = hosts_[index(i)];
    return host.is_up && host.running && host.worker_life == life && host.incarnation == incarnation;
  }

  void fail_workers(int i, int life, int incarnation) {
    Host& host = hosts_[index(i)];
    if (!lives(i, life, incarnation) || host.core->phase() != Phase::kRunning) return;
    NodeFailure failure{.host = host.name, .exit_code = 1 + i, .what = "a worker failed"};
    failure.do_not_restart = dice_.chance(10);
    perform(i, host.core->workers_failed(failure, clock_of(host)));
    stop_in(i, dice_.up_to(400ms));
  }

  void succeed(int i, int life, int incarnation) {
    Host& host = hosts_[index(i)];
    if (!lives(i, life, incarnation) || host.core->phase() != Phase::kRunning) return;
    host.succeeded = host.running;
    end_workers(host);
    perform(i, host.core->workers_succeeded(clock_of(host)));
  }

  void stop_in(int i, Duration delay) {
    const int life = hosts_[index(i)].worker_life;
    const int incarnation = hosts_[index(i)].incarnation;
    in(delay, [this, i, life, incarnation] {
      if (!lives(i, life, incarnation)) return;
      Host& host = hosts_[index(i)];
      end_workers(host);
      perform(i, host.core->workers_stopped(clock_of(host)));
    });
  }

  static void end_workers(Host& host) {
    host.running.reset();
    ++host.worker_life;
  }

  void wake(int i) {
    Host& host = hosts_[index(i)];
    if (!host.is_up || host.left) return;
    const TimePoint at = host.core->next_wake();
    if (at == TimePoint::max()) return;
    const Duration delay = std::max<Duration>(Duration::zero(), at - clock_of(host));
    if (host.wakes_at > now_ && host.wakes_at <= now_ + delay) return;
    host.wakes_at = now_ + delay;
    const int incarnation = host.incarnation;
    in(delay, [this, i, incarnation] {
      Host& woken = hosts_[index(i)];
      if (!woken.is_up || woken.incarnation != incarnation || woken.left) return;
      woken.wakes_at = TimePoint::max();
      perform(i, woken.core->tick(clock_of(woken)));
    });
  }

  void perform(int i, const MemberActions& actions) {
    for (const MemberAction& action : actions) {
      std::visit([this, i](const auto& what) { act(i, what); }, action);
    }
    wake(i);
  }

  void act(int i, const SendStatus& send) {
    const MemberId id = hosts_[index(i)].id;
    to_job(i, [this, id, status = send.status] { perform(job_->status(id, status, job_clock())); });
  }
  void act(int i, const StartWorkers& start) { start_workers(i, start.seat); }
  void act(int i, const StopWorkers&) { stop_in(i, dice_.up_to(400ms)); }
  void act(int i, const KillWorkers&) {
    ++stats_.kills_by_lease;
    stop_in(i, dice_.up_to(kKillTime));
  }
  void act(int, const ShowWaiting&) {}
  void act(int i, const ComeBack&) {
    Host& host = hosts_[index(i)];
    host.was = host.id;
    host.id = MemberId(0);
    const int incarnation = host.incarnation;
    in(1ms + dice_.up_to(50ms), [this, i, incarnation] {
      const Host& back = hosts_[index(i)];
      if (back.is_up && back.incarnation == incarnation) connect(i);
    });
  }
  void act(int i, const LeaveJob& leave) {
    Host& host = hosts_[index(i)];
    if (host.running) broken_ = fmt::format("{} left the job while its workers ran", host.name);
    host.left = leave.end;
    if (job_->state() == JobState::kEnded && leave.end != job_->end() && leave.end.exit_code < 128) {
      broken_ = fmt::format("{} was told another end of the job", host.name);
    }
    const MemberId id = host.id;
    to_job(
        i, [this, id] { perform(job_->lost(id, Loss::kClosed, job_clock())); }, Delivery::kInOrder);
  }

  // ---- coordinator
  // --------------------------------------------------------------------------------------------------

  void tick_job() {
    in(timing_.heartbeat / 4, [this] { tick_job(); });
    if (now_ < job_pauses_until_) return;
    perform(job_->tick(job_clock()));
  }

  void perform(const JobActions& actions) {
    for (const JobAction& action : actions) {
      std::visit([this](const auto& what) { act(what); }, action);
    }
  }

  void act(const Note&) {}
  void act(const BeginGeneration& begin) {
    if (!seats_.empty()) previous_seats_ = std::move(seats_);
    seats_.clear();
    current_ = begin.generation;
  }
  void act(const SendOrder& send) {
    if (send.order.seat) check_seat(send.to, *send.order.seat);
    to_host(send.to, [this, id = send.to, order = send.order](int i) {
      Host& host = hosts_[index(i)];
      if (host.id != id || !host.core) return;
      host.was_welcomed = true;
      perform(i, host.core->order(order, clock_of(host)));
    });
  }
  void act(const Expel& expel) {
    to_host(expel.who, [this, id = expel.who, why = expel.reason](int i) {
      Host& host = hosts_[index(i)];
      if (host.id != id || !host.core) return;
      perform(i, host.core->disconnected(why, clock_of(host)));
    });
  }

  // ---- network
  // ------------------------------------------------------------------------------------------------------

  enum class Delivery { kAnyhow, kInOrder };

  void to_job(int i, std::function<void()> deliver, Delivery delivery = Delivery::kAnyhow) {
    const Host& host = hosts_[index(i)];
    ++stats_.messages;
    if (!host.sends || (delivery == Delivery::kAnyhow && is_lost())) {
      ++stats_.lost_messages;
      return;
    }
    const int copies = delivery == Delivery::kAnyhow && dice_.chance(duplicate_percent_) ? 2 : 1;
    // What the kernel closes comes after what was sent before.
    const Duration at_least = delivery == Delivery::kInOrder ? max_delay_ : Duration::zero();
    for (int copy = 0; copy < copies; ++copy) {
      in(at_least + dice_.up_to(max_delay_), [this, deliver] { when_job_is_awake(deliver); });
    }
  }

  void when_job_is_awake(const std::function<void()>& deliver) {
    if (now_ >= job_pauses_until_) return deliver();
    in(job_pauses_until_ - now_, [this, deliver] { when_job_is_awake(deliver); });
  }

  void to_host(MemberId id, const std::function<void(int)>& deliver) {
    const auto found =
        std::find_if(hosts_.begin(), hosts_.end(), [&](const Host& host) { return host.id == id; });
    ++stats_.messages;
    if (found == hosts_.end() || !found->hears || is_lost()) {
      ++stats_.lost_messages;
      return;
    }
    const int i = static_cast<int>(found - hosts_.begin());
    const int copies = dice_.chance(duplicate_percent_) ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy) {
      in(dice_.up_to(max_delay_), [this, i, id, deliver] {
        const Host& host = hosts_[index(i)];
        if (host.is_up && host.id == id && !host.left) deliver(i);
      });
    }
  }

  bool is_lost() { return dice_.chance(drop_percent_); }

  // ---- faults
  // -------------------------------------------------------------------------------------------------------

  void strike() {
    const int i = dice_.below(static_cast<int>(hosts_.size()));
    Host& host = hosts_[index(i)];
    switch (dice_.below(10)) {
      case 0:
        return power_off_and_replace(i, true);
      case 1:
        return power_off_and_replace(i, false);
      case 2:
        return cut(i, false, false);
      case 3:
        return cut(i, true, false);
      case 4:
        return cut(i, false, true);
      case 5:
        return reset(i);
      case 6:
        host.clock_ahead += dice_.up_to(700ms);
        return;
      case 7:
        job_pauses_until_ = now_ + dice_.up_to(1000ms);
        return;
      case 8:
        return tell_to_leave(i);
    }
  }

  void power_off_and_replace(int i, bool kernel_closes) {
    power_off(i, kernel_closes);
    if (dice_.chance(60)) in(dice_.up_to(1000ms), [this, i] { boot(i); });
  }

  void cut(int i, bool sends, bool hears) {
    hosts_[index(i)].sends = sends;
    hosts_[index(i)].hears = hears;
    in(dice_.up_to(1200ms), [this, i] { hosts_[index(i)].sends = hosts_[index(i)].hears = true; });
  }

  /// A middlebox breaks the connection; either side may notice first, or alone.
  void reset(int i) {
    Host& host = hosts_[index(i)];
    const MemberId id = host.id;
    if (!host.is_up || id == MemberId(0)) return;
    if (dice_.chance(70))
      in(dice_.up_to(5ms), [this, id] { perform(job_->lost(id, Loss::kReset, job_clock())); });
    if (dice_.chance(70)) {
      in(dice_.up_to(5ms), [this, i, id] {
        Host& broken = hosts_[index(i)];
        if (broken.is_up && broken.id == id && !broken.left) {
          perform(i, broken.core->disconnected("reset", clock_of(broken)));
        }
      });
    }
  }

  void tell_to_leave(int i) {
    Host& host = hosts_[index(i)];
    if (!host.is_up || !host.core || host.left) return;
    perform(i, host.core->leave(SIGTERM, false, clock_of(host)));
    if (host.running) stop_in(i, dice_.up_to(400ms));
  }

  void heal() {
    drop_percent_ = 0;
    max_delay_ = 2ms;
    for (int i = 0; i < static_cast<int>(hosts_.size()); ++i) {
      Host& host = hosts_[index(i)];
      host.sends = host.hears = true;
      if (!host.is_up) in(dice_.up_to(100ms), [this, i] { boot(i); });
    }
  }

  // ---- promises
  // -----------------------------------------------------------------------------------------------------

  void check_one_generation() {
    std::optional<Generation> running;
    for (const Host& host : hosts_) {
      if (!host.running) continue;
      if (running && *running != *host.running) {
        broken_ = fmt::format("at {} ms workers of generations {} and {} ran side by side",
                              (now_ - TimePoint{}) / 1ms, *running, *host.running);
      }
      running = host.running;
    }
  }

  void check_seat(MemberId id, const Seat& seat) {
    if (seat.generation != current_)
      broken_ = fmt::format("a seat of generation {} in {}", seat.generation, current_);
    if (const auto old = seats_.find(id); old != seats_.end()) {
      if (old->second != seat) broken_ = "a seat changed within a generation";
      return;
    }
    if (seat.nodes < spec_.min_nodes || seat.nodes > spec_.max_nodes) {
      broken_ =
          fmt::format("a world of {} nodes, not {} to {}", seat.nodes, spec_.min_nodes, spec_.max_nodes);
    }
    for (const auto& [other, held] : seats_) {
      if (held.node_rank == seat.node_rank || held.base_rank == seat.base_rank)
        broken_ = "two nodes with one rank";
      if (held.world_size != seat.world_size) broken_ = "two world sizes in a generation";
    }
    if (seat.node_rank.value() < 0 || seat.node_rank.value() >= seat.nodes)
      broken_ = "a node rank outside the world";
    const auto before = previous_seats_.find(id);
    if (before != previous_seats_.end() && before->second.generation.value() + 1 == seat.generation.value() &&
        before->second.node_rank.value() < seat.nodes && before->second.node_rank != seat.node_rank) {
      broken_ = fmt::format("a survivor of rank {} became rank {}", before->second.node_rank, seat.node_rank);
    }
    seats_.emplace(id, seat);
  }

  void check_progress() {
    if (job_->state() == JobState::kEnded) {
      for (const Host& host : hosts_) {
        if (host.is_up && host.running)
          broken_ = fmt::format("{} has workers after the end of the job", host.name);
      }
      return;
    }
    if (job_->state() != JobState::kRunning) {
      int alive = 0;
      for (const Host& host : hosts_) alive += host.is_up && !host.left ? 1 : 0;
      if (alive >= spec_.min_nodes || job_->state() == JobState::kStopping) {
        broken_ = fmt::format("no progress after healing: {} with {} nodes alive: {}",
                              to_string(job_->state()), alive, job_->describe(job_clock()));
      }
      return;
    }
    if (now_ - last_work_ > 2s) {
      broken_ = fmt::format("generation {} runs, but no {} nodes have worked for {} ms", job_->generation(),
                            spec_.min_nodes, (now_ - last_work_) / 1ms);
      for (const Host& host : hosts_) broken_ += "\n  " + describe(host);
    }
  }

  static std::string describe(const Host& host) {
    if (!host.core) return fmt::format("{}: never booted", host.name);
    return fmt::format("{}: {}, {} in generation {}, {}, {}", host.name, host.is_up ? "up" : "down",
                       to_string(host.core->phase()), host.core->generation(),
                       host.running ? fmt::format("workers of {}", *host.running) : std::string("no workers"),
                       host.left ? fmt::format("left with {} ({})", host.left->exit_code, host.left->why)
                                 : std::string("stays"));
  }

  void note_work() {
    if (job_->state() != JobState::kRunning) return;
    int working = 0;
    for (const Host& host : hosts_) {
      const bool works = host.running == job_->generation() || host.succeeded == job_->generation();
      working += works ? 1 : 0;
    }
    if (working >= spec_.min_nodes) last_work_ = now_;
  }

  static constexpr Duration kFaultTime = 3s;
  static constexpr Duration kKillTime = 30ms;
  static constexpr Duration kHealingTime = 6s;

  Dice dice_;
  ScheduleStats& stats_;
  WorldSpec spec_;
  Timing timing_;
  std::optional<Job> job_;
  std::vector<Host> hosts_;
  std::map<int, NodeRank> pins_;
  std::map<MemberId, bool> known_;
  std::map<MemberId, Seat> seats_;
  std::map<MemberId, Seat> previous_seats_;
  Generation current_;
  std::priority_queue<Event> events_;
  std::uint64_t event_count_ = 0;
  std::uint64_t last_member_ = 0;
  TimePoint now_{};
  TimePoint job_pauses_until_{};
  TimePoint last_work_{};
  Duration job_clock_ahead_{};
  TimePoint ends_at_ = TimePoint{} + kFaultTime + kHealingTime;
  int drop_percent_ = 0;
  int duplicate_percent_ = 0;
  Duration max_delay_{};
  std::string broken_;
};

}  // namespace

std::string play_schedule(std::uint64_t seed, ScheduleStats& stats) { return Schedule(seed, stats).play(); }

}  // namespace ddprun::membership::testing
