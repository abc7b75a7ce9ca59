#include "tests/scenario/membership/simulation.h"

#include "rendezvous/membership/job.h"
#include "tests/scenario/membership/dice.h"
#include "tests/scenario/membership/promises.h"
#include "tests/scenario/membership/sim_agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace ddprun::membership::testing {
namespace {

using namespace std::chrono_literals;

class Schedule;

/// A machine: its clock, its line, and the agent that runs there, if one does.
struct Host final : Surroundings {
  Host(Schedule& schedule, int number) : schedule_(schedule), number_(number) {}

  [[nodiscard]] TimePoint now() const override;
  void in(Duration delay, std::function<void()> act) override;
  [[nodiscard]] TimePoint clock() const override;
  [[nodiscard]] Duration until(TimePoint at) const override;
  void send(const Status& status) override;
  void connect() override;
  void hang_up() override;
  Dice& dice() override;
  Promises& promises() override;

  [[nodiscard]] bool is_up() const { return agent != nullptr && agent->is_alive(); }
  [[nodiscard]] bool has_ended() const { return agent != nullptr && agent->exit_code().has_value(); }

  std::string name;
  bool sends = true;  ///< its messages reach the coordinator
  bool hears = true;  ///< the coordinator's reach it
  SimAgent* agent = nullptr;
  std::optional<Generation> succeeded;  ///< the last of the agents before
  MemberId id;                          ///< of the agent's connection
  std::optional<MemberId> was;
  Duration clock_ahead{};     ///< how far its clock has jumped
  int clock_permille = 1000;  ///< how fast it runs

 private:
  Schedule& schedule_;
  int number_;
};

class Schedule {
  friend struct Host;

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
    stats_.ended = job_->state() == JobPhase::kEnded;
    for (const auto& agent : agents_) stats_.kills_by_lease += agent->kills_by_lease();
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
    timing_.rejoin_timeout = kRejoinTime;
    promises_.emplace(spec_);
    job_.emplace(spec_, timing_, now_, std::to_string(++coordinators_));
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
      hosts_.emplace_back(*this, i);
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
  TimePoint job_clock() const { return now_ + job_clock_ahead_; }
  [[nodiscard]] bool has(Defect defect) const { return defect_ == defect; }

  // ---- hosts

  void boot(int i) {
    Host& host = hosts_[index(i)];
    if (host.is_up() || host.has_ended()) return;
    host.was.reset();
    if (host.agent != nullptr && host.agent->succeeded()) host.succeeded = host.agent->succeeded();
    const WorkerHabits habits{.count = workers_of(i),
                              .failing_permille = failing_permille_,
                              .exit_code = 1 + i % 100,
                              .job_timeout = draw_job_timeout(),
                              .says_idle_too_early = has(Defect::kSaysIdleTooEarly)};
    agents_.push_back(std::make_unique<SimAgent>(host.name, host, habits, agents_timing()));
    host.agent = agents_.back().get();
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
    Host& host = hosts_[index(i)];
    host.id = MemberId(owners_.size());
    owners_.push_back(i);
    knock(i, host.id);
  }

  /// A real connection is retried until it stands; here the hello is sent again until an answer comes.
  void knock(int i, MemberId id) {
    Host& host = hosts_[index(i)];
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
    if (facts.last_generation == Generation(0) && now_ < strangers_come_at_) return;
    const bool is_new = known_.insert(facts.id).second;
    if (const auto refusal = refused_.find(facts.id); refusal != refused_.end()) return act(refusal->second);
    heard_at_[owner_of(facts.id)] = now_;
    to_host(facts.id, [](SimAgent& agent) { agent.welcome(); });
    if (is_new) perform(job_->joined(facts, job_clock()));
  }

  // ---- agents

  void hang_up(int i) {
    Host& host = hosts_[index(i)];
    host.was = std::exchange(host.id, MemberId(0));
    to_job(
        i, [this, id = *host.was] { lose(id, Loss::kClosed); }, Delivery::kInOrder);
  }

  void power_off(int i, bool kernel_closes) {
    Host& host = hosts_[index(i)];
    if (!host.is_up()) return;
    ++stats_.crashes;
    if (!kernel_closes) return host.agent->lose_power();
    host.agent->die();
    hang_up(i);
  }

  // ---- coordinator

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
    check_not_given_up();
    check_time();
    seated_.clear();
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
      const int owner = owner_of(send.to);
      seated_.emplace(send.to, Seated{owner, hosts_[index(owner)].agent, seat.generation});
      const bool is_repeated = !told_.emplace(send.to, seat.generation).second;
      if (has(Defect::kSeatToldOnce) && is_repeated) send.order.seat.reset();
    }
    to_host(send.to, [order = send.order](SimAgent& agent) { agent.order(order); });
  }
  void act(const Disconnect& parted) {
    if (!parted.may_return) refused_.emplace(parted.who, parted);
    to_host(parted.who, [why = parted.why, may_return = parted.may_return](SimAgent& agent) {
      agent.refused(why, may_return);
    });
  }

  // ---- network

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

  void to_host(MemberId id, const std::function<void(SimAgent&)>& deliver) {
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
        if (there.is_up() && there.id == id) deliver(*there.agent);
      });
    }
  }

  bool is_lost() { return dice_.chance(drop_percent_); }

  // ---- faults

  void strike() {
    const int i = dice_.below(static_cast<int>(hosts_.size()));
    Host& host = hosts_[index(i)];
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
  void pause_coordinator(const Host& host, Duration time) {
    job_pauses_until_ = now_ + time;
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
    Host& host = hosts_[index(i)];
    const MemberId id = host.id;
    if (!host.is_up() || id == MemberId(0)) return;
    if (dice_.chance(70)) in(dice_.up_to(5ms), [this, id, loss] { lose(id, loss); });
    if (dice_.chance(70)) {
      in(dice_.up_to(5ms), [this, i, id] {
        const Host& broken = hosts_[index(i)];
        if (broken.is_up() && broken.id == id) broken.agent->disconnected("the connection broke");
      });
    }
  }

  /// Another one takes its place, which knows nothing.
  void restart_coordinator() {
    if (job_->state() == JobPhase::kEnded) return;
    failures_told_.clear();
    heard_at_.clear();
    job_.emplace(spec_, timing_, job_clock(), std::to_string(++coordinators_));
    promises_->coordinator_is_new();
    strangers_come_at_ = now_ + 2 * timing_.liveness();
    known_.clear();
    refused_.clear();
    first_id_ = MemberId(owners_.size());
    for (int i = 0; i < static_cast<int>(hosts_.size()); ++i) {
      const Host& host = hosts_[index(i)];
      if (!host.is_up()) continue;
      if (host.agent->is_joined()) {
        host.agent->disconnected("the coordinator is gone");
      } else if (host.id != MemberId(0)) {  // it knocks; who still stops its workers comes by itself, later
        connect(i);
      }
    }
  }

  void tell_to_leave(int i) {
    const Host& host = hosts_[index(i)];
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

  // ---- promises

  void check_progress() {
    if (job_->state() == JobPhase::kEnded) return check_end();
    for (const Host& host : hosts_) {
      const std::optional<TimePoint> over = host.is_up() ? host.agent->time_over_at() : std::nullopt;
      if (over && now_ - *over > kPatience)
        return broke(fmt::format("the time of {} was over long ago", host.name));
    }
    if (now_ - last_work_ <= kPatience) return;
    int alive = 0;
    for (const Host& host : hosts_) alive += host.is_up() ? 1 : 0;
    if (job_->state() == JobPhase::kGathering && alive < spec_.min_nodes) return;
    broke(fmt::format("{} in generation {}, and no {} nodes have worked for {} ms, with {} alive: {}",
                      to_string(job_->state()), job_->generation(), spec_.min_nodes,
                      (now_ - last_work_) / 1ms, alive, job_->describe(job_clock())));
  }

  // Every agent ends when the job has, and says what it was told.
  void check_end() {
    if (now_ - ended_at_ < 2s) return;
    for (const Host& host : hosts_) {
      if (host.is_up()) return broke(fmt::format("{} goes on after the end of the job", host.name));
      if (host.agent != nullptr && host.agent->running())
        return broke(fmt::format("{} has workers after the end of the job", host.name));
    }
    for (const auto& agent : agents_) check_what_it_says(*agent);
  }

  void check_what_it_says(const SimAgent& agent) {
    if (!agent.told_end() || agent.was_told_to_leave() || !agent.exit_code()) return;
    if (*agent.told_end() != job_->end()) return broke("a node was told another end of the job");
    if (*agent.exit_code() != job_->end().exit_code) broke("a node exits with another code than the job's");
  }

  void take_status(MemberId sender, const Status& status) {
    if (sender < first_id_) return;  // it was on its way to the coordinator before
    const JobPhase state = job_->state();
    heard_at_[owner_of(sender)] = now_;
    const JobActions actions = job_->status(sender, status, job_clock());
    const bool is_in_time = state == JobPhase::kRunning || state == JobPhase::kStopping;
    const bool is_heard = std::none_of(actions.begin(), actions.end(), [](const JobAction& action) {
      return std::holds_alternative<Disconnect>(action);
    });
    const auto& failure = status.failure;
    const bool is_by_worker =
        failure && failure->rank && failure->weight == Weight::kCause;  // and no time-out
    if (is_in_time && is_heard && is_by_worker) failures_told_.insert(status.generation);
    perform(actions);
  }

  // The cause of a failed job is a worker that failed by itself in its last generation, or one that left with 0
  // while others waited for it. A coordinator that stood still makes no worker do so.
  void check_cause() {
    const JobEnd& end = job_->end();
    if (end.exit_code != 0 && end.why.empty()) return broke("a job failed without a word");
    if (end.exit_code != 0) check_not_given_up();
    const bool is_of_a_node = end.why.starts_with("node ");  // and not of those who did not come
    const bool blames_pause = is_of_a_node && end.why.find("coordinator stood still") != std::string::npos;
    if (blames_pause && failures_told_.contains(job_->generation()))
      broke("a pause of the coordinator is blamed, where a worker had failed by itself: " + end.why);
    if (!end.root_cause) return;
    const bool is_right = std::any_of(agents_.begin(), agents_.end(), [&](const auto& agent) {
      const bool has_left = end.root_cause->has_left && agent->left_in(job_->generation());
      return agent->host() == end.root_cause->host && (has_left || agent->failed_in(job_->generation()));
    });
    if (!is_right) broke(fmt::format("{} is blamed, where no worker failed", end.root_cause->host));
  }

  // After a time-out of a node that had a part in the job, nothing begins that it did not cross on its way.
  void check_time() {
    if (!is_calm_) return;
    for (const auto& [id, seated] : seated_) {
      const std::optional<TimePoint> over = seated.agent->time_over_at();
      if (over && now_ > *over + max_delay_)
        broke(fmt::format("a generation begins {} ms after the time of {} was over", (now_ - *over) / 1ms,
                          seated.agent->host()));
    }
  }

  // When all workers of all nodes have ended well, the job has: no pause, lost lease or lost connection
  // undoes that, and nothing is run again. But for a node that is gone, was told to leave, or did not come
  // back in time.
  void check_not_given_up() {
    std::set<int> hosts;  // one may sit in two places, where a hello of it came late
    const auto has_succeeded = [&](const auto& entry) {
      const Seated& seated = entry.second;
      const auto heard = heard_at_.find(seated.host);
      const bool is_there = hosts_[index(seated.host)].agent == seated.agent && seated.agent->is_alive() &&
                            heard != heard_at_.end() && now_ - heard->second < kRejoinTime;
      return is_there && hosts.insert(seated.host).second && !seated.agent->was_told_to_leave() &&
             seated.agent->worked_well_in() == seated.generation;
    };
    if (!seated_.empty() && std::all_of(seated_.begin(), seated_.end(), has_succeeded)) {
      broke(fmt::format("generation {} is given up, and all its workers had succeeded",
                        seated_.begin()->second.generation));
    }
  }

  void broke(std::string sentence) {
    for (const Host& host : hosts_) {
      if (host.agent != nullptr) sentence += "\n  " + host.agent->describe();
    }
    promises_->broke(std::move(sentence));
  }

  void note_work() {
    if (job_->state() == JobPhase::kEnded && ended_at_ == TimePoint{}) {
      ended_at_ = now_;
      check_cause();
    }
    if (job_->state() != JobPhase::kRunning) return;
    int working = 0;
    for (const Host& host : hosts_) {
      if (host.agent == nullptr) continue;
      const Generation generation = job_->generation();
      const bool works = host.agent->running() == generation || host.agent->succeeded() == generation ||
                         host.succeeded == generation;
      working += works ? 1 : 0;
    }
    if (working >= spec_.min_nodes) last_work_ = now_;
  }

  static constexpr std::uint32_t kMostEvents = 20'000'000;
  static constexpr Duration kFaultTime = 3s;
  static constexpr Duration kRejoinTime = 1500ms;
  static constexpr Duration kHealingTime = 6s + kRejoinTime;
  /// Stopping, waiting for who may come back, a back-off, and a start take less.
  static constexpr Duration kPatience = 3s + kRejoinTime;

  Dice dice_;
  Dice coordinators_dice_;
  Dice timeouts_dice_;
  bool has_timeouts_ = timeouts_dice_.chance(15);
  bool is_calm_ = false;  ///< nothing happens to nodes and network, and messages come soon
  Defect defect_;
  ScheduleStats& stats_;
  std::optional<Promises> promises_;
  JobSpec spec_;
  Timing timing_;
  std::optional<Job> job_;
  int coordinators_ = 0;
  std::deque<Host> hosts_;
  std::vector<std::unique_ptr<SimAgent>> agents_;  ///< all there ever were
  std::map<int, NodeRank> pins_;
  std::set<MemberId> known_;
  std::map<MemberId, Disconnect> refused_;
  struct Seated {
    int host;
    const SimAgent* agent;
    Generation generation;
  };
  std::map<MemberId, Seated> seated_;   ///< in the last generation
  std::map<int, TimePoint> heard_at_;   ///< by this coordinator, by host
  std::set<Generation> failures_told_;  ///< in which a worker failed by itself, and the coordinator heard it
  std::set<std::pair<MemberId, Generation>> told_;  ///< who was sent its seat
  std::vector<int> owners_{0};                      ///< which host a member id belongs to
  std::vector<Event> events_;                       ///< a heap
  std::vector<std::function<void()>> acts_;         ///< what the events do
  std::vector<std::uint32_t> free_acts_;            ///< places in acts_ that are free
  std::uint32_t event_count_ = 0;
  TimePoint now_{};
  TimePoint job_pauses_until_{};
  TimePoint last_work_{};
  TimePoint ended_at_{};
  TimePoint strangers_come_at_{};
  MemberId first_id_;  ///< that speaks to this coordinator
  Duration job_clock_ahead_{};
  TimePoint ends_at_ = TimePoint{} + kFaultTime + kHealingTime;
  int drop_percent_ = 0;
  int duplicate_percent_ = 0;
  Duration max_delay_{};
  int failing_permille_ = 0;
};

TimePoint Host::now() const { return schedule_.now_; }
void Host::in(Duration delay, std::function<void()> act) { schedule_.in(delay, std::move(act)); }
TimePoint Host::clock() const {
  return TimePoint{} + (schedule_.now_ - TimePoint{}) / 1000 * clock_permille + clock_ahead;
}
Duration Host::until(TimePoint at) const {
  const Duration ahead = at - clock();
  return ahead <= Duration::zero() ? Duration::zero() : Duration(ahead / clock_permille * 1000 + 1us);
}
void Host::send(const Status& status) {
  schedule_.to_job(number_,
                   [&schedule = schedule_, sender = id, status] { schedule.take_status(sender, status); });
}
void Host::connect() { schedule_.connect(number_); }
void Host::hang_up() { schedule_.hang_up(number_); }
Dice& Host::dice() { return schedule_.dice_; }
Promises& Host::promises() { return *schedule_.promises_; }

}  // namespace

std::string play_schedule(std::uint64_t seed, ScheduleStats& stats, Defect defect) {
  return Schedule(seed, defect, stats).play();
}

}  // namespace ddprun::membership::testing
