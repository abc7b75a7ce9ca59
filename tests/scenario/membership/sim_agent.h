#pragma once

#include "launcher/agent/node_translation.h"
#include "launcher/agent/supervisor.h"
#include "rendezvous/base/exit_status.h"
#include "rendezvous/membership/member_core.h"
#include "tests/scenario/membership/dice.h"
#include "tests/scenario/membership/promises.h"

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::membership::testing {

/// What surrounds the agent of one host: time, its line to the coordinator, chance.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  [[nodiscard]] virtual TimePoint now() const = 0;
  virtual void in(Duration delay, std::function<void()> act) = 0;
  /// What the host's clock says; it may jump and drift.
  [[nodiscard]] virtual TimePoint clock() const = 0;
  /// How long from now until the host's clock shows `at`; zero when it does already.
  [[nodiscard]] virtual Duration until(TimePoint at) const = 0;
  virtual void send(const Status& status) = 0;
  /// The agent wants a connection, as a member never seen before; `welcome` follows, or `refused`.
  virtual void connect() = 0;
  /// The agent closes its connection, after what it has sent.
  virtual void hang_up() = 0;
  virtual Dice& dice() = 0;
  virtual Promises& promises() = 0;
};

/// How the workers of a host behave.
struct WorkerHabits {
  LocalWorldSize count{1};
  int failing_permille = 0;
  int exit_code = 1;
  std::optional<Duration> job_timeout{};
  /// Breaks a rule on purpose: the agent says that no worker is alive while it is still stopping them.
  bool says_idle_too_early = false;
};

/// One agent from its start to its end: a real supervisor and a real member, joined by the agent's own
/// translation, with workers that fail, succeed, linger, and leave helpers behind.
class SimAgent final : private MemberWords {
 public:
  SimAgent(std::string host, Surroundings& surroundings, WorkerHabits habits, Timing timing);

  void start();
  /// SIGKILL to the agent: its workers go on until the guards end them, at the latest with the lease.
  void die();
  /// The machine loses its power.
  void lose_power();
  /// It stands still for so long (SIGSTOP, a frozen file system); its guards do not.
  void stand_still(Duration time);
  void take_signal(int signal);

  void welcome();
  void order(const Order& order);
  void refused(const std::string& reason, bool may_return);
  void disconnected(const std::string& why);

  [[nodiscard]] const std::string& host() const { return host_; }
  [[nodiscard]] bool is_alive() const { return is_alive_; }
  [[nodiscard]] bool is_joined() const { return is_joined_; }
  /// By a signal, or because its time was over.
  [[nodiscard]] bool was_told_to_leave() const {
    return leaving_signal_ != 0 || was_signalled_ || time_over_at_.has_value();
  }
  /// When its --job-timeout was.
  [[nodiscard]] std::optional<TimePoint> time_over_at() const { return time_over_at_; }
  /// Its exit code, once it has ended by itself.
  [[nodiscard]] std::optional<int> exit_code() const { return exit_code_; }
  [[nodiscard]] const std::optional<JobEnd>& told_end() const { return told_end_; }
  /// Generation of the processes that are alive.
  [[nodiscard]] std::optional<Generation> running() const { return running_; }
  [[nodiscard]] std::optional<Generation> succeeded() const { return succeeded_; }
  /// The last generation in which all its workers ended with 0 and nobody had asked them to end, whether it
  /// has seen that or not.
  [[nodiscard]] Generation worked_well_in() const { return worked_well_in_; }
  [[nodiscard]] std::optional<Success> success() const { return core_ ? core_->success() : std::nullopt; }
  /// A worker of this agent ended with 0 before anybody asked it to.
  [[nodiscard]] bool left_in(Generation generation) const { return left_in_.contains(generation); }
  /// In which generations a worker of this agent failed by itself.
  [[nodiscard]] bool failed_in(Generation generation) const { return failed_in_.contains(generation); }
  /// The last place it was given.
  [[nodiscard]] const Seat& seat() const { return seat_; }
  [[nodiscard]] Generation seen_generation() const {
    return core_ ? core_->seen_generation() : Generation(0);
  }
  [[nodiscard]] int kills_by_lease() const { return kills_by_lease_; }
  [[nodiscard]] std::string describe() const;

 private:
  using Event = launcher::Event;
  using Action = launcher::Action;

  // The agent's loop.
  void later(Duration delay, const std::function<void()>& act);
  void when_awake(const std::function<void()>& act);
  void raise(Event event);
  void carry_out(const launcher::Step& step);
  void carry_out(const Action& action);
  void set_deadline(const launcher::SetDeadline& set);
  void finish(int exit_code);

  // Its workers.
  void spawn_all();
  void plan_their_lives();
  void exit_in(Duration delay, LocalRank worker, ExitStatus status);
  void signal_workers(const launcher::EndWorkers& action);
  void sweep(const launcher::Sweep& action);
  void processes_ended();
  void guards_end_processes_with_the_lease();

  // Its member: what rendezvous/membership/member.cc does around the core.
  void workers_failed(const NodeFailure& failure) override;
  void workers_succeeded() override;
  void workers_stopped() override;
  void leave(int signal) override;
  void perform(const MemberActions& actions);
  void when_read(const std::function<void()>& act);
  void wake();
  void leave_connection();
  void act(const SendStatus& send);
  void act(const RoundBegins& start);
  void act(const RoundStopped& stop);
  void act(const LeaseLost& kill);
  void act(const Waiting&) {}
  void act(const RestartGranted& granted);
  void act(const ComeBack& back);
  void act(const JobEnded& leave);
  void tell(Event event, bool is_last = false);
  void end_for_signal();

  std::string host_;
  Surroundings& world_;
  WorkerHabits habits_;
  Timing timing_;
  bool is_alive_ = false;
  TimePoint asleep_until_{};
  std::optional<int> exit_code_;
  bool was_signalled_ = false;
  std::optional<TimePoint> time_over_at_;

  launcher::Supervisor supervisor_;
  std::deque<Event> events_;
  bool is_handling_ = false;
  std::map<launcher::DeadlineKind, int> deadlines_;  ///< how often each was set
  int sweeps_ = 0;

  std::optional<Generation> running_;
  std::optional<Generation> succeeded_;
  std::set<Generation> left_in_;
  std::set<Generation> failed_in_;
  Seat seat_;
  Generation started_;            ///< the last one
  int life_ = 0;                  ///< of workers; what is planned for an earlier one is void
  std::vector<bool> has_exited_;  ///< by local rank
  std::vector<bool> was_asked_;   ///< to end, by local rank
  int exited_well_ = 0;           ///< of this life, unasked
  Generation worked_well_in_;

  std::optional<MemberCore> core_;
  bool is_joined_ = false;
  int connection_ = 0;      ///< how many it has left
  bool is_closed_ = false;  ///< it has said its last word
  int leaving_signal_ = 0;
  TimePoint tells_at_{};
  TimePoint wakes_at_ = TimePoint::max();
  std::optional<JobEnd> told_end_;
  int kills_by_lease_ = 0;
};

}  // namespace ddprun::membership::testing
