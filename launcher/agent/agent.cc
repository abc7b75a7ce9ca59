#include "launcher/agent/agent.h"

#include "launcher/agent/console_log.h"
#include "launcher/agent/coordinated_rounds.h"
#include "launcher/agent/local_rounds.h"
#include "launcher/agent/supervisor.h"
#include "launcher/process/child.h"
#include "launcher/process/guard.h"
#include "launcher/process/job_cgroup.h"
#include "launcher/process/job_sweep.h"
#include "launcher/process/leftovers.h"
#include "launcher/process/output.h"
#include "launcher/process/process_table.h"
#include "launcher/process/signals.h"
#include "launcher/process/spawn.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/exit_codes.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

namespace ddprun::launcher {
namespace {

// Workers are spawned in turns of this many, so that exits and signals are heard in between.
constexpr int kSpawnsPerTurn = 16;
// How long a console that takes nothing at all is waited for once the job is over.
constexpr auto kConsolePatience = std::chrono::seconds(10);

SupervisorOptions supervisor_options(const Plan& plan) {
  SupervisorOptions options;
  options.local_world_size = plan.local_world_size;
  options.grace = plan.options.shutdown_timeout;
  if (plan.options.job_timeout) options.job_timeout = *plan.options.job_timeout;
  options.joins_after_failure = plan.options.max_nodes > 1;
  options.restarts.max_restarts = plan.options.max_restarts;
  if (plan.options.max_restarts_window) options.restarts.window = *plan.options.max_restarts_window;
  options.restarts.no_restart_exit_codes = plan.options.no_restart_exit_codes;
  return options;
}

OutputOptions output_options(const Plan& plan) {
  std::vector<std::string> spools{plan.host.temporary_directory};
  if (!plan.log_root.empty()) spools.insert(spools.begin(), plan.log_root);
  return {.spool_directories = std::move(spools),
          .stdout_filters = plan.options.duplicate_stdout_filters,
          .stderr_filters = plan.options.duplicate_stderr_filters,
          .fold_lines = plan.options.fold_lines,
          .give_stdin_a_terminal = plan.options.stdin_local_rank || plan.options.debug_rank};
}

std::vector<int> signals_for(const Plan& plan) {
  std::vector<int> signals = plan.signals_to_handle;
  for (const int signal : {SIGCHLD, SIGWINCH, SIGUSR1, SIGUSR2}) {
    if (std::find(signals.begin(), signals.end(), signal) == signals.end()) signals.push_back(signal);
  }
  return signals;
}

// The lowest three descriptors must exist, or a pipe would be mistaken for our stdout.
void ensure_stdio() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int opened = ::open("/dev/null", O_RDWR);
  }
}

// Three descriptors a worker: take what the hard limit allows; workers get the old limit back.
rlimit raise_open_files() {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit raised = before;
  raised.rlim_cur = raised.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return before;
}

std::string sender_text(const ReceivedSignal& signal) {
  if (signal.sender == 0) return {};
  const std::optional<ProcessEntry> process = read_process(signal.sender);
  return process ? fmt::format(" from pid {} ({})", signal.sender, process->command)
                 : fmt::format(" from pid {}", signal.sender);
}

EventKind expiry_event(DeadlineKind kind) {
  switch (kind) {
    case DeadlineKind::kGrace:
      return EventKind::kGraceOver;
    case DeadlineKind::kReap:
      return EventKind::kReapOver;
    case DeadlineKind::kBackoff:
      return EventKind::kBackoffOver;
    case DeadlineKind::kJob:
      return EventKind::kJobTimeOver;
  }
  return EventKind::kGraceOver;
}

// One worker of the running generation: the process, its streams and the facts for the report.
struct RunningWorker {
  WorkerSpec spec;
  std::unique_ptr<WorkerStreams> streams;
  std::unique_ptr<ChildProcess> child;
  WorkerOutcome outcome;
};

// Executes what the supervisor decides. Everything happens on one thread, in the order of the event queue.
class Agent final : RoundSource::Listener {
 public:
  Agent(const Plan& plan, const AgentDeps& deps)
      : plan_(plan),
        deps_(deps),
        output_(io_, output_options(plan)),
        logger_(make_console_logger(output_, deps.logger.level())),
        supervisor_(supervisor_options(plan)),
        leftovers_(io_),
        timers_{boost::asio::steady_timer(io_), boost::asio::steady_timer(io_),
                boost::asio::steady_timer(io_), boost::asio::steady_timer(io_)},
        console_timer_(io_) {}

  Result<JobOutcome> run();

 private:
  Result<void> prepare();

  // What the rendezvous says.
  void round_closed(const RoundInfo& round) override;
  void round_failed(const Error& error) override { raise({.kind = EventKind::kRoundFailed, .error = error}); }
  void waiting(const std::string& text) override { output_.say(text); }
  void peer_failed(const std::string& why, int exit_code) override {
    raise({.kind = EventKind::kPeerFailed, .exit_code = exit_code, .text = why});
  }
  void lease_lost(const std::string& why) override {
    raise({.kind = EventKind::kLeaseLost, .exit_code = exit_code::kTempFail, .text = why});
  }
  void job_ended(int exit_code, const std::string& why) override {
    raise({.kind = EventKind::kJobEnded, .exit_code = exit_code, .text = why});
  }

  // Events in, actions out.
  void raise(Event event);
  void carry_out(const Step& step);
  void carry_out(const Action& action);

  // Actions.
  void join_round(int restart_count);
  void publish_failure(const Action& action);
  void start_generation();
  void spawn_some();
  bool spawn_one(RunningWorker& worker);
  void signal_groups(const Action& action);
  void set_deadline(DeadlineKind kind, TimePoint at);
  void name_stuck(const Action& action);
  void sweep();
  void finish(int exit_code);

  // Happenings.
  void on_signal(const ReceivedSignal& signal);
  void on_exit(RunningWorker& worker, ExitStatus status);
  void reap_others();
  void on_guard_death(pid_t pid);
  [[nodiscard]] JobMarks job_marks() const;
  void on_swept(Leftovers leftovers);
  void close_generation(std::vector<std::string> leftovers);
  void remove_empty_directories(const std::string& attempt);
  void wait_for_console();
  void close_all();

  RunningWorker& worker(LocalRank local_rank) {
    return *workers_[static_cast<std::size_t>(local_rank.value())];
  }

  const Plan& plan_;
  const AgentDeps& deps_;
  SteadyClock clock_;
  boost::asio::io_context io_{1};
  JobOutput output_;
  std::shared_ptr<Logger> logger_;
  Supervisor supervisor_;
  rlimit open_files_{};
  std::unique_ptr<SignalSource> signals_;
  std::unique_ptr<RoundSource> rounds_;
  std::optional<JobCgroup> cgroup_;
  std::optional<GuardPair> guards_;
  LeftoverSweep leftovers_;
  std::array<boost::asio::steady_timer, 4> timers_;
  boost::asio::steady_timer console_timer_;
  std::uint64_t console_taken_ = 0;
  std::deque<Event> events_;
  bool is_handling_ = false;
  bool reap_again_ = false;
  bool is_finished_ = false;
  RoundInfo round_;
  std::vector<std::unique_ptr<RunningWorker>> workers_;
  std::size_t next_to_spawn_ = 0;
  GenerationOutcome generation_;
  JobOutcome outcome_;
};

Result<JobOutcome> Agent::run() {
  Result<void> prepared = prepare();
  if (!prepared) return prepared.error();
  signals_->start([this](const ReceivedSignal& signal) { on_signal(signal); });
  carry_out(supervisor_.start(clock_.now()));
  io_.run();
  DDPRUN_CHECK(is_finished_, "the loop ends when the job has ended");
  outcome_.console_bytes_dropped = output_.dropped_bytes();
  return std::move(outcome_);
}

// In this order: orphans are ours from the first worker on, the guard holds no descriptor of the store, and
// the store is open before any worker can ask for it.
Result<void> Agent::prepare() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  open_files_ = raise_open_files();
  Result<std::unique_ptr<SignalSource>> signals = SignalSource::open(io_, signals_for(plan_));
  if (!signals) return signals.error();
  signals_ = std::move(*signals);
  cgroup_ = JobCgroup::create(plan_.job_tag);
  Result<GuardPair> guards = GuardPair::start(job_marks());
  if (!guards) return guards.error();
  guards_.emplace(std::move(*guards));
  if (!plan_.log_root.empty()) {
    Result<void> made = make_directories(attempt_directory(plan_, 0));
    if (!made)
      return Error(ErrorCode::kConfig, made.error().message() + "; choose another place with --log-dir");
  }
  const auto open_rounds = plan_.options.max_nodes > 1 ? CoordinatedRounds::open : LocalRounds::open;
  Result<std::unique_ptr<RoundSource>> rounds = open_rounds(io_, plan_, *this, *logger_);
  if (!rounds) return rounds.error();
  rounds_ = std::move(*rounds);
  return ok();
}

void Agent::raise(Event event) {
  events_.push_back(std::move(event));
  if (is_handling_) return;
  is_handling_ = true;
  while (!events_.empty()) {
    const Event next = std::move(events_.front());
    events_.pop_front();
    carry_out(supervisor_.handle(next, clock_.now()));
  }
  is_handling_ = false;
}

void Agent::carry_out(const Step& step) {
  if (!step.story.empty()) {
    if (step.is_loud) {
      output_.say(step.story);
    } else {
      logger_->info("{}->{}: {}", to_string(step.from), to_string(step.to), step.story);
    }
  }
  const bool stops =
      supervisor_.reason() != StopReason::kSucceeded &&
      (step.to == State::kDraining || step.to == State::kKilling || step.to == State::kSweeping) &&
      (step.from == State::kStarting || step.from == State::kRunning);
  if (stops) deps_.observer.stopping(round_, supervisor_.reason(), supervisor_.why());
  for (const Action& action : step.actions) carry_out(action);
}

void Agent::carry_out(const Action& action) {
  switch (action.kind) {
    case ActionKind::kJoinRound:
      return join_round(action.restart_count);
    case ActionKind::kSpawn:
      return start_generation();
    case ActionKind::kSignalGroups:
      return signal_groups(action);
    case ActionKind::kSetDeadline:
      return set_deadline(action.deadline, action.at);
    case ActionKind::kPublishFailure:
      return publish_failure(action);
    case ActionKind::kPublishSuccess:
      return rounds_->report_success();
    case ActionKind::kSweep:
      return sweep();
    case ActionKind::kNameStuck:
      return name_stuck(action);
    case ActionKind::kFinish:
      return finish(action.exit_code);
  }
}

void Agent::join_round(int restart_count) { rounds_->join(restart_count); }

void Agent::round_closed(const RoundInfo& round) {
  round_ = round;
  if (round.restart_count > 0) deps_.observer.restarting(round.restart_count, supervisor_.decision().delay);
  raise(
      {.kind = EventKind::kRoundClosed, .restart_count = round.restart_count, .base_rank = round.base_rank});
}

void Agent::publish_failure(const Action& action) {
  NodeFailure failure;
  failure.reason = supervisor_.reason();
  failure.why = action.text;
  failure.exit_code = action.exit_code;
  failure.signal = supervisor_.stop_signal();
  if (const std::optional<LocalRank> guilty = supervisor_.root_cause()) {
    RunningWorker& running = worker(*guilty);
    failure.worker = running.outcome;
    if (running.streams) {
      running.streams->drain();
      failure.worker.stderr_tail = running.streams->stderr_tail();
    }
  }
  rounds_->report_failure(failure);
}

void Agent::start_generation() {
  const std::string attempt = attempt_directory(plan_, round_.restart_count);
  std::vector<WorkerSpec> specs = deps_.worker_specs(plan_, round_);
  DDPRUN_CHECK(static_cast<int>(specs.size()) == plan_.local_world_size.value(),
               "one spec for each local rank");
  generation_ = {};
  generation_.generation = round_.generation;
  generation_.restart_count = round_.restart_count;
  generation_.started_at = clock_.now();
  generation_.log_dir = attempt;
  deps_.observer.generation_started(round_);
  if (!attempt.empty()) {
    if (Result<void> made = make_directories(attempt); !made) output_.say(made.error().message());
  }
  output_.begin_generation(attempt, specs);
  workers_.clear();
  for (WorkerSpec& spec : specs) {
    auto running = std::make_unique<RunningWorker>();
    running->outcome.rank = spec.rank;
    running->outcome.local_rank = spec.local_rank;
    running->outcome.error_file = spec.error_file;
    running->spec = std::move(spec);
    workers_.push_back(std::move(running));
  }
  next_to_spawn_ = 0;
  spawn_some();
}

void Agent::spawn_some() {
  for (int turn = 0; turn < kSpawnsPerTurn; ++turn) {
    if (supervisor_.state() != State::kStarting || next_to_spawn_ == workers_.size()) return;
    if (!spawn_one(*workers_[next_to_spawn_++])) return;
  }
  boost::asio::post(io_, [this] { spawn_some(); });
}

bool Agent::spawn_one(RunningWorker& worker) {
  const auto failed = [&](const Error& error) {
    raise({.kind = EventKind::kSpawnFailed, .local_rank = worker.spec.local_rank, .error = error});
    return false;
  };
  // Made here and not for all at once: the disk works while the worker before this one starts.
  if (!worker.spec.log_dir.empty()) {
    if (Result<void> made = make_directories(worker.spec.log_dir); !made) output_.say(made.error().message());
  }
  Result<std::unique_ptr<WorkerStreams>> streams = output_.open_streams(worker.spec);
  if (!streams) return failed(streams.error());
  worker.streams = std::move(*streams);
  SpawnRequest request;
  request.argv = worker.spec.argv;
  request.environment = worker.spec.environment;
  request.cpus = worker.spec.cpus;
  request.stdin_fd = worker.streams->stdin_fd();
  request.stdout_fd = worker.streams->stdout_fd();
  request.stderr_fd = worker.streams->stderr_fd();
  request.stdin_is_terminal = worker.streams->stdin_is_terminal();
  request.open_files = open_files_;
  request.guard_fds = guards_->sockets();
  if (cgroup_) request.cgroup_fd = cgroup_->fd();
  worker.outcome.started_at = clock_.now();
  worker.outcome.started_wall = std::chrono::system_clock::now();
  Result<SpawnedProcess> process = spawn(request);
  worker.streams->spawned();
  if (!process) return failed(process.error());
  worker.outcome.pid = process->pid;
  worker.outcome.stdout_path = worker.streams->stdout_path();
  worker.outcome.stderr_path = worker.streams->stderr_path();
  worker.child = std::make_unique<ChildProcess>(io_, std::move(*process));
  worker.child->async_wait([this, &worker](ExitStatus status) { on_exit(worker, status); });
  deps_.observer.worker_spawned(round_, worker.outcome);
  raise(
      {.kind = EventKind::kWorkerSpawned, .local_rank = worker.spec.local_rank, .pid = worker.child->pid()});
  return true;
}

void Agent::on_exit(RunningWorker& worker, ExitStatus status) {
  worker.outcome.ended_at = clock_.now();
  worker.outcome.ended_wall = std::chrono::system_clock::now();
  worker.outcome.status = status;
  guards_->session_ended(worker.child->pid());
  raise({.kind = EventKind::kWorkerExited, .local_rank = worker.spec.local_rank, .status = status});
  worker.streams->drain();
  deps_.observer.worker_exited(round_, worker.outcome);
  if (reap_again_) reap_others();
}

void Agent::signal_groups(const Action& action) {
  for (const LocalRank local_rank : action.workers) worker(local_rank).child->signal_group(action.signal);
}

void Agent::set_deadline(DeadlineKind kind, TimePoint at) {
  boost::asio::steady_timer& timer = timers_[static_cast<std::size_t>(kind)];
  timer.expires_at(at);
  timer.async_wait([this, kind](boost::system::error_code error) {
    if (!error) raise({.kind = expiry_event(kind)});
  });
}

void Agent::name_stuck(const Action& action) {
  for (const LocalRank local_rank : action.workers) {
    WorkerOutcome& stuck = worker(local_rank).outcome;
    stuck.stuck_in = describe_stuck(stuck.pid);
    output_.say(fmt::format("rank {} (pid {}) is in state {}", stuck.rank, stuck.pid, stuck.stuck_in));
  }
}

void Agent::on_signal(const ReceivedSignal& signal) {
  if (signal.number == SIGCHLD) {
    // Exits of workers that are known already come first: their order tells cause from consequence.
    boost::asio::post(io_, [this] { reap_others(); });
    return;
  }
  if (signal.number == SIGWINCH) return output_.resize();
  const std::vector<int>& ending = plan_.signals_to_handle;
  if (std::find(ending.begin(), ending.end(), signal.number) ==
      ending.end()) {  // SIGUSR1 and SIGUSR2: for the workers
    for (const auto& running : workers_) {
      if (running->child) running->child->signal(signal.number);
    }
    return;
  }
  if (is_finished_) return close_all();  // only a stuck console is being waited for
  raise({.kind = EventKind::kSignal, .signal = signal.number, .text = sender_text(signal)});
}

// Orphans of the workers become our children; they and the guard are reaped here. Workers are not: each one's
// exit is told by its own pidfd, in order.
void Agent::reap_others() {
  reap_again_ = false;
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) break;
    const pid_t pid = info.si_pid;
    const bool is_worker = std::any_of(workers_.begin(), workers_.end(), [pid](const auto& running) {
      return running->child && running->child->is_running() && running->child->pid() == pid;
    });
    if (is_worker) {
      reap_again_ = true;
      break;
    }
    ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG);
    if (guards_->has(pid)) on_guard_death(pid);
  }
  leftovers_.children_changed();
}

JobMarks Agent::job_marks() const {
  JobMarks marks{.tag = plan_.job_tag, .cgroup = cgroup_ ? cgroup_->path() : std::string(), .sessions = {}};
  for (const auto& running : workers_) {
    if (running->child && running->child->is_running()) marks.sessions.insert(running->child->pid());
  }
  return marks;
}

void Agent::on_guard_death(pid_t pid) {
  if (Result<void> replaced = guards_->replace(pid, job_marks()); !replaced) {
    output_.say(fmt::format("a guard process was killed and {}; the other one still watches",
                            replaced.error().message()));
  } else {
    logger_->info("guard process {} was killed; another has taken its place", pid);
  }
}

void Agent::sweep() {
  for (const auto& running : workers_) {
    if (running->streams) running->streams->drain();
  }
  const std::array<pid_t, GuardPair::kCount> guards = guards_->pids();
  std::set<pid_t> spared(guards.begin(), guards.end());
  for (const auto& running : workers_) {
    if (running->child && running->child->is_running())
      spared.insert(running->child->pid());  // given up as stuck
  }
  const SweepMode mode =
      supervisor_.reason() == StopReason::kSucceeded ? SweepMode::kAskFirst : SweepMode::kKillAtOnce;
  if (cgroup_ && mode == SweepMode::kKillAtOnce) kill_cgroup(cgroup_->path());
  // Posted: whoever told of the last exit must have returned before its worker is taken down.
  leftovers_.start(mode, std::move(spared), [this](Leftovers leftovers) {
    boost::asio::post(io_, [this, found = std::move(leftovers)]() mutable { on_swept(std::move(found)); });
  });
}

void Agent::on_swept(Leftovers leftovers) {
  if (!leftovers.ended.empty()) {
    const std::string text =
        fmt::format("ended {} process{} that the workers left behind: {}", leftovers.ended.size(),
                    leftovers.ended.size() == 1 ? "" : "es", fmt::join(leftovers.ended, ", "));
    // After a failure that is part of stopping the group; after success it is news.
    if (supervisor_.reason() == StopReason::kSucceeded) {
      output_.say(text);
    } else {
      logger_->debug(text);
    }
  }
  for (const std::string& survivor : leftovers.surviving) {
    output_.say(fmt::format("a process that the workers left behind does not end on SIGKILL: {}", survivor));
  }
  close_generation(std::move(leftovers.ended));
  raise({.kind = EventKind::kSwept});
}

// Everything the workers wrote is out, and the facts are final.
void Agent::close_generation(std::vector<std::string> leftovers) {
  for (const auto& running : workers_) {
    const SupervisedWorker& seen =
        supervisor_.workers()[static_cast<std::size_t>(running->spec.local_rank.value())];
    running->outcome.verdict = seen.verdict;
    running->outcome.spawn_error = seen.spawn_error;
    running->outcome.stopped_with = seen.stopped_with;
    if (running->streams) {
      running->streams->finish();
      running->outcome.stderr_tail = running->streams->stderr_tail();
    }
    generation_.workers.push_back(running->outcome);
  }
  output_.end_generation();
  generation_.reason = supervisor_.reason();
  generation_.why = supervisor_.why();
  if (supervisor_.root_cause()) {
    generation_.root_cause = static_cast<std::size_t>(supervisor_.root_cause()->value());
  }
  generation_.ended_at = clock_.now();
  generation_.leftovers = std::move(leftovers);
  remove_job_segments(plan_.job_tag);
  if (plan_.log_root_is_temporary) remove_empty_directories(generation_.log_dir);
  deps_.observer.generation_ended(generation_);
  outcome_.generations.push_back(std::move(generation_));
  generation_ = {};
}

// A directory of ours that nobody wrote into is not left behind in /tmp; rmdir spares the others.
void Agent::remove_empty_directories(const std::string& attempt) {
  for (const auto& running : workers_) {
    if (!running->spec.log_dir.empty()) ::rmdir(running->spec.log_dir.c_str());
  }
  if (!attempt.empty() && ::rmdir(attempt.c_str()) == 0) ::rmdir(plan_.log_root.c_str());
}

void Agent::finish(int exit_code) {
  is_finished_ = true;
  outcome_.exit_code = exit_code;
  outcome_.reason = supervisor_.reason();
  outcome_.signal = supervisor_.stop_signal();
  outcome_.error = supervisor_.error();
  const std::string& refusal = supervisor_.decision().why;
  outcome_.why = refusal.empty() ? supervisor_.why() : refusal;
  for (boost::asio::steady_timer& timer : timers_) timer.cancel();
  rounds_->close();
  if (!output_.has_backlog()) return close_all();
  output_.set_on_empty([this] {
    if (!output_.has_backlog()) close_all();
  });
  wait_for_console();
}

// A slow console is given the time it needs; one that takes nothing for a while is left.
void Agent::wait_for_console() {
  console_taken_ = output_.taken_bytes();
  console_timer_.expires_after(kConsolePatience);
  console_timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    if (output_.taken_bytes() == console_taken_) return close_all();
    wait_for_console();
  });
}

// Nothing is pending on the loop after this, so that it returns.
void Agent::close_all() {
  console_timer_.cancel();
  signals_->close();
  output_.close();
  workers_.clear();
}

}  // namespace

Result<JobOutcome> run_agent(const Plan& plan, const AgentDeps& deps) {
  ensure_stdio();
  Agent agent(plan, deps);
  return agent.run();
}

}  // namespace ddprun::launcher
