#include "tests/scenario/membership/simulation.h"

#include "rendezvous/membership/job.h"
#include "rendezvous/membership/member_core.h"
#include "tests/scenario/membership/dice.h"
#include "tests/scenario/membership/promises.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace ddprun::membership::testing {
namespace {

using namespace std::chrono_literals;

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
  bool is_leaving = false;              ///< it was told to stop
  Duration clock_ahead{};               ///< how far its clock has jumped
  int clock_permille = 1000;            ///< how fast it runs
  std::optional<Generation> running;    ///< generation of the workers that are alive
  std::optional<Generation> succeeded;  ///< generation in which its workers exited with 0
  int worker_life = 0;
  std::optional<JobEnd> left;
  TimePoint wakes_at = TimePoint::max();
};

class Schedule {
 public:
  Schedule(std::uint64_t seed, Defect defect, ScheduleStats& stats)
      : dice_(seed), defect_(defect), stats_(stats) {
    set_the_stage();
  }

  std::string play() {
    while (promises_->broken().empty() && !events_.empty() && now_ < ends_at_) {
      std::pop_heap(events_.begin(), events_.end());
      const Event event = events_.back();
      events_.pop_back();
      now_ = std::max(now_, event.at);
      const std::function<void()> act = std::move(acts_[event.act]);
      free_acts_.push_back(event.act);
      act();
      if (event_count_ > kMostEvents) promises_->broke("somebody acts without end, and time stands still");
    }
    if (promises_->broken().empty()) check_progress();
    stats_.hosts = static_cast<int>(hosts_.size());
    stats_.generations = static_cast<int>(job_->generation().value());
    stats_.ended = job_->state() == JobState::kEnded;
    return promises_->broken();
  }

 private:
  // Sorted by time, and what happens at one time as it was planned. Small, because there are millions.
  struct Event {
    TimePoint at;
    std::uint32_t order;
    std::uint32_t act;
    bool operator<(const Event& other) const {
      return std::pair(at, order) > std::pair(other.at, other.order);
    }
  };

  void in(Duration delay, std::function<void()> act) {
    if (free_acts_.empty()) {
      free_acts_.push_back(static_cast<std::uint32_t>(acts_.size()));
      acts_.emplace_back();
    }
    const std::uint32_t place = free_acts_.back();
    free_acts_.pop_back();
    acts_[place] = std::move(act);
    events_.push_back({now_ + delay, ++event_count_, place});
    std::push_heap(events_.begin(), events_.end());
  }

  void set_the_stage() {
    const int hosts = dice_.below(1000) < 3 ? 100 + dice_.below(300) : 1 + dice_.below(6);
    spec_.max_nodes = 1 + dice_.below(hosts);
    spec_.min_nodes = dice_.chance(40) ? spec_.max_nodes : 1 + dice_.below(spec_.max_nodes);
    spec_.max_restarts = dice_.below(4);
    timing_.heartbeat = 100ms;
    timing_.debounce = dice_.up_to(200ms);
    timing_.join_timeout = 3s;
    timing_.missed_heartbeats = 5;
    promises_.emplace(spec_);
    job_.emplace(spec_, timing_, now_);
    set_up_hosts(hosts);
    const int calm_percent = dice_.below(4) == 0 ? 100 : 30;
    drop_percent_ = dice_.chance(calm_percent) ? 0 : dice_.below(30);
    duplicate_percent_ = dice_.chance(50) ? 0 : dice_.below(30);
    max_delay_ = dice_.chance(60) ? Duration(2ms) : dice_.chance(70) ? Duration(80ms) : Duration(300ms);
    const int faults = dice_.chance(20) ? 0 : 1 + dice_.below(6);
    for (int i = 0; i < faults; ++i) in(dice_.up_to(kFaultTime), [this] { strike(); });
    in(kFaultTime, [this] { heal(); });
    in(0ms, [this] { tick_job(); });
  }

  void set_up_hosts(int hosts) {
    const bool pinned = dice_.chance(30);
    const bool clocks_drift = dice_.chance(30);
    // Of many nodes each fails less often: else no big world would ever live.
    failing_permille_ = std::max(1, 600 / (1 + hosts));
    hosts_.resize(index(hosts));
    for (int i = 0; i < hosts; ++i) {
      hosts_[index(i)].name = fmt::format("node{}", i);
      if (clocks_drift) hosts_[index(i)].clock_permille += dice_.below(41) - 20;
      if (pinned && i < spec_.max_nodes) pins_[i] = NodeRank(i);
      in(dice_.up_to(300ms), [this, i] { boot(i); });
    }
  }

  [[nodiscard]] LocalWorldSize workers_of(int i) const {
    return LocalWorldSize(has(Defect::kRanksMove) ? 1 : 1 + i % 3);
  }
  [[nodiscard]] int owner_of(MemberId id) const { return owners_.at(static_cast<std::size_t>(id.value())); }
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  TimePoint clock_of(const Host& host) const {
    return TimePoint{} + (now_ - TimePoint{}) / 1000 * host.clock_permille + host.clock_ahead;
  }
  TimePoint job_clock() const { return now_ + job_clock_ahead_; }
  [[nodiscard]] bool has(Defect defect) const { return defect_ == defect; }

  // ---- hosts
  // --------------------------------------------------------------------------------------------------------

  void boot(int i) {
    Host& host = hosts_[index(i)];
    if (host.is_up) return;
    host.is_up = true;
    host.left.reset();
    host.is_leaving = false;
    ++host.incarnation;
    host.was.reset();
    host.wakes_at = TimePoint::max();
    host.core.emplace(agents_timing(), clock_of(host));
    connect(i);
  }

  [[nodiscard]] Timing agents_timing() const {
    Timing timing = timing_;
    if (has(Defect::kLongLease)) timing.missed_heartbeats = 2 * timing_.missed_heartbeats;
    return timing;
  }

  void connect(int i) {
    Host& host = hosts_[index(i)];
    host.id = MemberId(owners_.size());
    owners_.push_back(i);
    host.was_welcomed = false;
    knock(i, host.id);
    perform(i, host.core->connected(clock_of(host)));
  }

  /// A real connection is retried until it stands; here the hello is sent again until an answer comes.
  void knock(int i, MemberId id) {
    Host& host = hosts_[index(i)];
    if (!host.is_up || host.id != id || host.was_welcomed || host.left) return;
    NodeFacts facts{.id = id, .host = host.name, .address = {}, .local_world_size = workers_of(i)};
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
          i, [this, id] { lose(id, Loss::kClosed); }, Delivery::kInOrder);
    }
  }

  void start_workers(int i, const Seat& seat) {
    Host& host = hosts_[index(i)];
    if (host.running)
      return promises_->broke(fmt::format("{} was told to start workers while workers ran", host.name));
    host.running = seat.generation;
    promises_->workers_started(host.name, seat.generation, now_);
    const int life = ++host.worker_life;
    const int incarnation = host.incarnation;
    if (dice_.below(1000) < failing_permille_) {
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

  void end_workers(Host& host) {
    if (host.running) promises_->workers_ended(*host.running);
    host.running.reset();
    ++host.worker_life;
  }

  void wake(int i) {
    Host& host = hosts_[index(i)];
    if (!host.is_up || host.left) return;
    const TimePoint at = host.core->next_wake();
    if (at == TimePoint::max()) return;
    const Duration ahead = at - clock_of(host);
    const Duration delay =
        ahead <= Duration::zero() ? Duration::zero() : Duration(ahead / host.clock_permille * 1000 + 1us);
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
  void act(int i, const StopWorkers&) {
    stop_in(i, dice_.up_to(400ms));
    Host& host = hosts_[index(i)];
    if (has(Defect::kSaysIdleTooEarly)) perform(i, host.core->workers_stopped(clock_of(host)));
  }
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
    if (host.running) promises_->broke(fmt::format("{} left the job while its workers ran", host.name));
    host.left = leave.end;
    if (job_->state() == JobState::kEnded && leave.end != job_->end() && !host.is_leaving) {
      promises_->broke(fmt::format("{} was told another end of the job", host.name));
    }
    const MemberId id = host.id;
    to_job(
        i, [this, id] { lose(id, Loss::kClosed); }, Delivery::kInOrder);
  }

  // ---- coordinator
  // --------------------------------------------------------------------------------------------------

  void tick_job() {
    in(timing_.heartbeat / 4, [this] { tick_job(); });
    note_work();
    if (now_ < job_pauses_until_) return;
    perform(job_->tick(job_clock()));
  }

  void perform(const JobActions& actions) {
    for (const JobAction& action : actions) {
      std::visit([this](const auto& what) { act(what); }, action);
    }
    promises_->all_seated();
  }

  void lose(MemberId id, Loss loss) {
    if (has(Defect::kNoFence)) loss = Loss::kClosed;
    perform(job_->lost(id, loss, job_clock()));
  }

  void act(const Note&) {}
  void act(const BeginGeneration& begin) { promises_->generation_began(begin.generation); }
  void act(SendOrder send) {
    if (send.order.seat) {
      Seat& seat = *send.order.seat;
      if (has(Defect::kRanksMove)) {
        const int moved = (seat.node_rank.value() + static_cast<int>(seat.generation.value())) % seat.nodes;
        seat.node_rank = NodeRank(moved);
        seat.base_rank = Rank(moved);
      }
      if (has(Defect::kRanksTwice)) seat.node_rank = NodeRank(seat.node_rank.value() / 2);
      promises_->seated(send.to, workers_of(owner_of(send.to)), seat);
      const bool is_repeated = !told_.emplace(send.to, seat.generation).second;
      if (has(Defect::kSeatToldOnce) && is_repeated) send.order.seat.reset();
    }
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
    const int i = owner_of(id);
    const Host& host = hosts_[index(i)];
    ++stats_.messages;
    if (host.id != id || !host.hears || is_lost()) {
      ++stats_.lost_messages;
      return;
    }
    const int copies = dice_.chance(duplicate_percent_) ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy) {
      in(dice_.up_to(max_delay_), [this, i, id, deliver] {
        const Host& there = hosts_[index(i)];
        if (there.is_up && there.id == id && !there.left) deliver(i);
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
      case 9:
        job_clock_ahead_ += dice_.up_to(700ms);
        return;
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
    if (dice_.chance(70)) in(dice_.up_to(5ms), [this, id] { lose(id, Loss::kReset); });
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
    host.is_leaving = true;
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

  void check_progress() {
    if (job_->state() == JobState::kEnded) {
      for (const Host& host : hosts_) {
        if (host.is_up && host.running)
          promises_->broke(fmt::format("{} has workers after the end of the job", host.name));
      }
      return;
    }
    if (job_->state() != JobState::kRunning) {
      int alive = 0;
      for (const Host& host : hosts_) alive += host.is_up && !host.left ? 1 : 0;
      if (alive >= spec_.min_nodes || job_->state() == JobState::kStopping) {
        promises_->broke(fmt::format("no progress after healing: {} with {} nodes alive: {}",
                                     to_string(job_->state()), alive, job_->describe(job_clock())));
      }
      return;
    }
    if (now_ - last_work_ > 2s) {
      std::string sentence = fmt::format("generation {} runs, but no {} nodes have worked for {} ms",
                                         job_->generation(), spec_.min_nodes, (now_ - last_work_) / 1ms);
      for (const Host& host : hosts_) sentence += "\n  " + describe(host);
      promises_->broke(sentence);
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

  static constexpr std::uint32_t kMostEvents = 20'000'000;
  static constexpr Duration kFaultTime = 3s;
  static constexpr Duration kKillTime = 30ms;
  static constexpr Duration kHealingTime = 6s;

  Dice dice_;
  Defect defect_;
  ScheduleStats& stats_;
  std::optional<Promises> promises_;
  WorldSpec spec_;
  Timing timing_;
  std::optional<Job> job_;
  std::vector<Host> hosts_;
  std::map<int, NodeRank> pins_;
  std::map<MemberId, bool> known_;
  std::set<std::pair<MemberId, Generation>> told_;  ///< who was sent its seat
  std::vector<int> owners_{0};                      ///< which host a member id belongs to
  std::vector<Event> events_;                       ///< a heap
  std::vector<std::function<void()>> acts_;         ///< what the events do
  std::vector<std::uint32_t> free_acts_;            ///< places in acts_ that are free
  std::uint32_t event_count_ = 0;
  TimePoint now_{};
  TimePoint job_pauses_until_{};
  TimePoint last_work_{};
  Duration job_clock_ahead_{};
  TimePoint ends_at_ = TimePoint{} + kFaultTime + kHealingTime;
  int drop_percent_ = 0;
  int duplicate_percent_ = 0;
  Duration max_delay_{};
  int failing_permille_ = 0;
};

}  // namespace

std::string play_schedule(std::uint64_t seed, ScheduleStats& stats, Defect defect) {
  return Schedule(seed, defect, stats).play();
}

}  // namespace ddprun::membership::testing
