#include "tests/scenario/membership/simulation.h"

#include "rendezvous/membership/job.h"
#include "tests/scenario/membership/agenda.h"
#include "tests/scenario/membership/dice.h"
#include "tests/scenario/membership/job_promises.h"
#include "tests/scenario/membership/promises.h"
#include "tests/scenario/membership/sim_agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace ddprun::membership::testing {
namespace {

using namespace std::chrono_literals;

class Schedule;

/// What surrounds the agent of one host.
class Line final : public Surroundings {
 public:
  Line(Schedule& schedule, int host) : schedule_(schedule), host_(host) {}

  [[nodiscard]] TimePoint now() const override;
  void in(Duration delay, std::function<void()> act) override;
  [[nodiscard]] TimePoint clock() const override;
  [[nodiscard]] Duration until(TimePoint at) const override;
  void send(const Status& status) override;
  void connect() override;
  void hang_up() override;
  Dice& dice() override;
  Promises& promises() override;

 private:
  [[nodiscard]] const SimHost& host() const;
  Schedule& schedule_;
  int host_;
};

class Schedule {
  friend class Line;

 public:
  Schedule(std::uint64_t seed, Defect defect, ScheduleStats& stats)
      : dice_(seed),
        coordinators_dice_(seed ^ 0x5eed),
        timeouts_dice_(seed ^ 0x71e0),
        defect_(defect),
        stats_(stats) {
    set_the_stage();
  }

  std::string play() {
    while (promises_->broken().empty() && !agenda_.is_empty() && now() < kEndsAt) {
      agenda_.next();
      if (agenda_.event_count() > kMostEvents)
        promises_->broke("somebody acts without end, and time stands still");
    }
    if (promises_->broken().empty()) job_promises_->check_progress(*job_, now(), job_clock());
    stats_.hosts = static_cast<int>(hosts_.size());
    stats_.generations = static_cast<int>(job_->generation().value());
    stats_.ended = job_->state() == JobPhase::kEnded;
    for (const auto& agent : agents_) stats_.kills_by_lease += agent.kills_by_lease();
    return promises_->broken();
  }

 private:
  void set_the_stage() {
    const int hosts = dice_.below(1000) < 3 ? 100 + dice_.below(300) : 1 + dice_.below(6);
    spec_.max_nodes = 1 + dice_.below(hosts);
    spec_.min_nodes = dice_.chance(40) ? spec_.max_nodes : 1 + dice_.below(spec_.max_nodes);
    spec_.max_restarts = dice_.below(4);
    timing_.heartbeat = 100ms;
    timing_.debounce = dice_.up_to(200ms);
    timing_.join_timeout = 3s;
    timing_.missed_heartbeats = 5;
    timing_.rejoin_timeout = kRejoinTime;
    promises_.emplace(spec_);
    job_promises_.emplace(*promises_, spec_, kRejoinTime, hosts_, agents_);
    job_.emplace(spec_, timing_, now(), std::to_string(++coordinators_));
    set_up_hosts(hosts);
    const int calm_percent = dice_.below(4) == 0 ? 100 : 30;
    drop_percent_ = dice_.chance(calm_percent) ? 0 : dice_.below(30);
    duplicate_percent_ = dice_.chance(50) ? 0 : dice_.below(30);
    max_delay_ = dice_.chance(60) ? Duration(2ms) : dice_.chance(70) ? Duration(80ms) : Duration(300ms);
    const int faults = dice_.chance(20) ? 0 : 1 + dice_.below(6);
    is_calm_ = faults == 0 && drop_percent_ == 0 && max_delay_ < timing_.heartbeat;
    for (int i = 0; i < faults; ++i) in(dice_.up_to(kFaultTime), [this] { strike(); });
    in(kFaultTime, [this] { heal(); });
    in(0ms, [this] { tick_job(); });
  }

  void set_up_hosts(int hosts) {
    const bool pinned = dice_.chance(30);
    const bool clocks_drift = dice_.chance(30);
    // Of many nodes each fails less often: else no big world would ever live.
    failing_permille_ = std::max(1, 600 / (1 + hosts));
    for (int i = 0; i < hosts; ++i) {
      hosts_.push_back({.name = fmt::format("node{}", i)});
      lines_.emplace_back(*this, i);
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
  [[nodiscard]] TimePoint now() const { return agenda_.now(); }
  void in(Duration delay, std::function<void()> act) { agenda_.in(delay, std::move(act)); }
  [[nodiscard]] TimePoint job_clock() const { return now() + job_clock_ahead_; }
  [[nodiscard]] bool has(Defect defect) const { return defect_ == defect; }

  // ---- hosts

  void boot(int i) {
    SimHost& host = hosts_[index(i)];
    if (host.is_up() || host.has_ended()) return;
    host.was.reset();
    if (host.agent != nullptr && host.agent->succeeded()) host.succeeded = host.agent->succeeded();
    const WorkerHabits habits{.count = workers_of(i),
                              .failing_permille = failing_permille_,
                              .exit_code = 1 + i % 100,
                              .job_timeout = draw_job_timeout(),
                              .says_idle_too_early = has(Defect::kSaysIdleTooEarly)};
    host.agent = &agents_.emplace_back(host.name, lines_[index(i)], habits, agents_timing());
    host.agent->start();
  }

  /// Its own dice, so that the schedules of old seeds stay what they were.
  std::optional<Duration> draw_job_timeout() {
    if (!has_timeouts_ || !timeouts_dice_.chance(50)) return std::nullopt;
    return 300ms + timeouts_dice_.up_to(3000ms);
  }

  [[nodiscard]] Timing agents_timing() const {
    Timing timing = timing_;
    if (has(Defect::kLongLease)) timing.missed_heartbeats = 2 * timing_.missed_heartbeats;
    return timing;
  }

  void connect(int i) {
    SimHost& host = hosts_[index(i)];
    host.id = MemberId(owners_.size());
    owners_.push_back(i);
    knock(i, host.id);
  }

  /// A real connection is retried until it stands; here the hello is sent again until an answer comes.
  void knock(int i, MemberId id) {
    SimHost& host = hosts_[index(i)];
    if (!host.is_up() || host.id != id || host.agent->is_joined()) return;
    NodeFacts facts{.id = id, .host = host.name, .address = {}, .local_world_size = workers_of(i)};
    if (const auto pin = pins_.find(i); pin != pins_.end()) facts.pinned = pin->second;
    facts.replaces = host.was;
    facts.last_generation = host.agent->seen_generation();
    facts.restarts_used = host.agent->seat().restarts_used;
    if (!has(Defect::kForgetsSuccess)) facts.succeeded = host.agent->success();
    to_job(i, [this, facts] { admit(facts); });
    in(60ms, [this, i, id] { knock(i, id); });
  }

  void admit(const NodeFacts& facts) {
    // A coordinator that is new cannot know of what nobody has told it: agents that are new come later.
    if (facts.id < first_id_) return;
    if (facts.last_generation == Generation(0) && now() < strangers_come_at_) return;
    const bool is_new = known_.insert(facts.id).second;
    if (const auto refusal = refused_.find(facts.id); refusal != refused_.end()) return act(refusal->second);
    job_promises_->heard(owner_of(facts.id), now());
    to_host(facts.id, [](SimAgent& agent) { agent.welcome(); });
    if (is_new) perform(job_->joined(facts, job_clock()));
  }

  // ---- agents

  void hang_up(int i) {
    SimHost& host = hosts_[index(i)];
    host.was = std::exchange(host.id, MemberId(0));
    to_job(
        i, [this, id = *host.was] { lose(id, Loss::kClosed); }, Delivery::kInOrder);
  }

  void power_off(int i, bool kernel_closes) {
    SimHost& host = hosts_[index(i)];
    if (!host.is_up()) return;
    ++stats_.crashes;
    if (!kernel_closes) return host.agent->lose_power();
    host.agent->die();
    hang_up(i);
  }

  // ---- coordinator

  void tick_job() {
    in(timing_.heartbeat / 4, [this] { tick_job(); });
    job_promises_->note_work(*job_, now());
    if (now() < job_pauses_until_) return;
    perform(job_->tick(job_clock()));
  }

  void take_status(MemberId sender, const Status& status) {
    if (sender < first_id_) return;  // it was on its way to the coordinator before
    const JobPhase state = job_->state();
    job_promises_->heard(owner_of(sender), now());
    const JobActions actions = job_->status(sender, status, job_clock());
    const bool is_in_time = state == JobPhase::kRunning || state == JobPhase::kStopping;
    const bool is_heard = std::none_of(actions.begin(), actions.end(), [](const JobAction& action) {
      return std::holds_alternative<Expel>(action);
    });
    const auto& failure = status.failure;
    const bool is_by_worker =
        failure && failure->worker && failure->weight == Weight::kCause;  // and no time-out
    if (is_in_time && is_heard && is_by_worker) job_promises_->failure_told(status.generation);
    perform(actions);
  }

  void perform(const JobActions& actions) {
    for (const JobAction& action : actions) {
      std::visit([this](const auto& what) { act(what); }, action);
    }
    promises_->all_seated();
  }

  void lose(MemberId id, Loss loss) {
    if (id < first_id_) return;
    if (has(Defect::kNoFence)) say_idle_for(id);
    perform(job_->lost(id, loss, job_clock()));
  }

  // A node that is gone has no workers: so it was believed once.
  void say_idle_for(MemberId id) {
    const Status idle{.sequence = std::uint64_t{1} << 60U, .generation = job_->generation()};
    perform(job_->status(id, idle, job_clock()));
  }

  void act(const Note&) {}
  void act(const BeginGeneration& begin) {
    job_promises_->generation_begins(now(), is_calm_ ? std::optional(max_delay_) : std::nullopt);
    promises_->generation_began(begin.generation);
  }
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
      job_promises_->seated(send.to, owner_of(send.to), seat.generation);
      const bool is_repeated = !told_.emplace(send.to, seat.generation).second;
      if (has(Defect::kSeatToldOnce) && is_repeated) send.order.seat.reset();
    }
    to_host(send.to, [order = send.order](SimAgent& agent) { agent.order(order); });
  }
  void act(const Expel& parted) {
    if (!parted.may_return) refused_.emplace(parted.who, parted);
    to_host(parted.who, [why = parted.why, may_return = parted.may_return](SimAgent& agent) {
      agent.refused(why, may_return);
    });
  }

  // ---- network

  enum class Delivery { kAnyhow, kInOrder };

  void to_job(int i, std::function<void()> deliver, Delivery delivery = Delivery::kAnyhow) {
    const SimHost& host = hosts_[index(i)];
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
    if (now() >= job_pauses_until_) return deliver();
    in(job_pauses_until_ - now(), [this, deliver] { when_job_is_awake(deliver); });
  }

  void to_host(MemberId id, const std::function<void(SimAgent&)>& deliver) {
    const int i = owner_of(id);
    const SimHost& host = hosts_[index(i)];
    ++stats_.messages;
    if (host.id != id || !host.hears || is_lost()) {
      ++stats_.lost_messages;
      return;
    }
    const int copies = dice_.chance(duplicate_percent_) ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy) {
      in(dice_.up_to(max_delay_), [this, i, id, deliver] {
        const SimHost& there = hosts_[index(i)];
        if (there.is_up() && there.id == id) deliver(*there.agent);
      });
    }
  }

  bool is_lost() { return dice_.chance(drop_percent_); }

  // ---- faults

  void strike() {
    const int i = dice_.below(static_cast<int>(hosts_.size()));
    SimHost& host = hosts_[index(i)];
    switch (dice_.below(13)) {
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
        return pause_coordinator(host, dice_.up_to(1000ms));
      case 8:
        return tell_to_leave(i);
      case 9:
        job_clock_ahead_ += dice_.up_to(700ms);
        return;
      case 10:
        if (host.is_up()) host.agent->stand_still(dice_.up_to(1200ms));
        return;
      case 11:
        return proxy_closes(i);
      case 12:
        return restart_coordinator();
    }
  }

  /// Where it runs in a launcher, the node of that stands still with it, and both read late what has come.
  /// Its own dice, so that the schedules of old seeds stay what they were.
  void pause_coordinator(const SimHost& host, Duration time) {
    job_pauses_until_ = now() + time;
    if (coordinators_dice_.chance(60) && host.is_up()) host.agent->stand_still(time);
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
  void reset(int i) { break_connection(i, Loss::kReset); }
  /// It ends the connection in order, as if the other side had.
  void proxy_closes(int i) { break_connection(i, Loss::kClosed); }

  void break_connection(int i, Loss loss) {
    SimHost& host = hosts_[index(i)];
    const MemberId id = host.id;
    if (!host.is_up() || id == MemberId(0)) return;
    if (dice_.chance(70)) in(dice_.up_to(5ms), [this, id, loss] { lose(id, loss); });
    if (dice_.chance(70)) {
      in(dice_.up_to(5ms), [this, i, id] {
        const SimHost& broken = hosts_[index(i)];
        if (broken.is_up() && broken.id == id) broken.agent->disconnected("the connection broke");
      });
    }
  }

  /// Another one takes its place, which knows nothing.
  void restart_coordinator() {
    if (job_->state() == JobPhase::kEnded) return;
    job_promises_->coordinator_is_new();
    job_.emplace(spec_, timing_, job_clock(), std::to_string(++coordinators_));
    promises_->coordinator_is_new();
    strangers_come_at_ = now() + 2 * timing_.liveness();
    known_.clear();
    refused_.clear();
    first_id_ = MemberId(owners_.size());
    for (int i = 0; i < static_cast<int>(hosts_.size()); ++i) {
      const SimHost& host = hosts_[index(i)];
      if (!host.is_up()) continue;
      if (host.agent->is_joined()) {
        host.agent->disconnected("the coordinator is gone");
      } else if (host.id != MemberId(0)) {  // it knocks; who still stops its workers comes by itself, later
        connect(i);
      }
    }
  }

  void tell_to_leave(int i) {
    const SimHost& host = hosts_[index(i)];
    if (!host.is_up()) return;
    const int signal = dice_.chance(80) ? SIGTERM : SIGINT;
    host.agent->take_signal(signal);
    if (!dice_.chance(30)) return;
    in(dice_.up_to(100ms), [agent = host.agent, signal] { agent->take_signal(signal); });
  }

  void heal() {
    drop_percent_ = 0;
    max_delay_ = 2ms;
    for (int i = 0; i < static_cast<int>(hosts_.size()); ++i) {
      hosts_[index(i)].sends = hosts_[index(i)].hears = true;
      in(dice_.up_to(100ms), [this, i] { boot(i); });
    }
  }

  static constexpr std::uint32_t kMostEvents = 20'000'000;
  static constexpr Duration kFaultTime = 3s;
  static constexpr Duration kRejoinTime = 1500ms;
  static constexpr Duration kHealingTime = 6s + kRejoinTime;
  static constexpr TimePoint kEndsAt = TimePoint{} + kFaultTime + kHealingTime;

  Agenda agenda_;
  Dice dice_;
  Dice coordinators_dice_;
  Dice timeouts_dice_;
  bool has_timeouts_ = timeouts_dice_.chance(15);
  bool is_calm_ = false;  ///< nothing happens to nodes and network, and messages come soon
  Defect defect_;
  ScheduleStats& stats_;
  std::optional<Promises> promises_;
  std::optional<JobPromises> job_promises_;
  JobSpec spec_;
  Timing timing_;
  std::optional<Job> job_;
  int coordinators_ = 0;
  std::deque<SimHost> hosts_;
  std::deque<Line> lines_;
  std::deque<SimAgent> agents_;  ///< all there ever were
  std::map<int, NodeRank> pins_;
  std::set<MemberId> known_;
  std::map<MemberId, Expel> refused_;
  std::set<std::pair<MemberId, Generation>> told_;  ///< who was sent its seat
  std::vector<int> owners_{0};                      ///< which host a member id belongs to
  TimePoint job_pauses_until_{};
  TimePoint strangers_come_at_{};
  MemberId first_id_;  ///< that speaks to this coordinator
  Duration job_clock_ahead_{};
  int drop_percent_ = 0;
  int duplicate_percent_ = 0;
  Duration max_delay_{};
  int failing_permille_ = 0;
};

const SimHost& Line::host() const { return schedule_.hosts_[Schedule::index(host_)]; }
TimePoint Line::now() const { return schedule_.now(); }
void Line::in(Duration delay, std::function<void()> act) { schedule_.in(delay, std::move(act)); }
TimePoint Line::clock() const {
  return TimePoint{} + (now() - TimePoint{}) / 1000 * host().clock_permille + host().clock_ahead;
}
Duration Line::until(TimePoint at) const {
  const Duration ahead = at - clock();
  return ahead <= Duration::zero() ? Duration::zero() : Duration(ahead / host().clock_permille * 1000 + 1us);
}
void Line::send(const Status& status) {
  schedule_.to_job(
      host_, [&schedule = schedule_, sender = host().id, status] { schedule.take_status(sender, status); });
}
void Line::connect() { schedule_.connect(host_); }
void Line::hang_up() { schedule_.hang_up(host_); }
Dice& Line::dice() { return schedule_.dice_; }
Promises& Line::promises() { return *schedule_.promises_; }

}  // namespace

std::string play_schedule(std::uint64_t seed, ScheduleStats& stats, Defect defect) {
  return Schedule(seed, defect, stats).play();
}

}  // namespace ddprun::membership::testing
