#include "launcher/agent/agent.h"

#include "launcher/agent/coordinated_rounds.h"
#include "launcher/agent/job_settings.h"
#include "launcher/agent/local_rounds.h"
#include "launcher/agent/node_translation.h"
#include "launcher/agent/supervisor.h"
#include "launcher/agent/worker_end.h"
#include "launcher/agent/worker_group.h"
#include "launcher/cleanup/orphan_watch.h"
#include "launcher/output/console_log.h"
#include "launcher/output/console_wait.h"
#include "launcher/process/process_table.h"
#include "launcher/report/error_file.h"
#include "rendezvous/base/alarm.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/base/signals.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

namespace ddprun::launcher {
namespace {

std::string sender_text(const ReceivedSignal& signal) {
  if (signal.sender == 0) return {};
  const std::optional<ProcessEntry> process = read_process(signal.sender);
  return process ? " from " + name_of(*process) : fmt::format(" from pid {}", signal.sender);
}

std::optional<std::size_t> index_of(std::optional<LocalRank> worker) {
  return worker ? std::optional(static_cast<std::size_t>(worker->value())) : std::nullopt;
}

// Executes what the supervisor decides. Everything happens on one thread, in the order of the event queue.
class Agent final : membership::Listener, WorkerGroup::Listener, LookLine {
 public:
  Agent(const Plan& plan, const AgentDeps& deps)
      : plan_(plan),
        deps_(deps),
        io_(deps.io),
        output_(deps.output),
        logger_(make_console_logger(output_, deps.logger.level())),
        supervisor_(supervisor_options(plan)),
        timers_{Alarm(io_), Alarm(io_), Alarm(io_), Alarm(io_)},
        console_wait_(io_, output_) {}

  Result<JobOutcome> run();

 private:
  Result<void> prepare();

  // What the rendezvous says.
  void heard(const membership::MemberEvent& event) override {
    std::visit([this](const auto& what) { hear(what); }, event);
  }
  void hear(const membership::Waiting& waiting) {
    deps_.observer.waiting(waiting.text);
    output_.say(waiting.text);
  }
  void hear(const RestartGranted& granted) {
    raise(granted);
    deps_.observer.restarting(granted.restart);
    note_restart(outcome_, granted.restart);
  }
  void hear(const RoundBegins& begins) {
    round_ = begins.round;
    outcome_.restarts_used = round_.seat.restarts_used;
    outcome_.restarts_allowed = round_.seat.restarts_allowed;
    raise(begins);
  }
  void hear(const LeaseLost& lost) {
    workers_->check_exits();
    orphans_->reap();  // of their groups, too
    raise(lost);
  }
  void hear(const JobEnded& ended) {
    outcome_.told_cause = ended.end.root_cause;
    outcome_.restarts_used = std::max(outcome_.restarts_used, ended.end.restarts_used);
    is_end_told_ = ended.end.exit_code != 0;
    raise(ended);
  }
  void hear(const auto& event) { raise(event); }
  void hear(const membership::RoundStopped& event) {
    note_suspended();
    raise(event);
  }
  void lease_held(TimePoint until) override {
    lease_until_ = until;
    orphans_->hold_lease(until);
  }
  void remote_lines(ConnectionId connection, const std::string& node,
                    const membership::LogLines& lines) override {
    output_.show_remote(connection, node, lines.is_stderr, lines.text, lines.dropped_before);
  }
  void lines_back(const membership::LogLines& lines) override {
    if (lines.dropped_before > 0)
      output_.say(fmt::format("{} lines of workers are missing here", lines.dropped_before));
    output_.show_here(lines.is_stderr, lines.text);
  }
  void look_wanted(const membership::LookRequest& look) override {
    if (deps_.looks != nullptr) return deps_.looks->wanted(look.number, look.most_bytes, look.kind);
    answer({.number = look.number, .is_last = true});
  }
  void look_answered(const LookAnswer& answer) override {
    if (deps_.looks != nullptr) deps_.looks->answered(answer);
  }
  [[nodiscard]] std::size_t reserved_descriptors() const override {
    return launcher::reserved_descriptors(plan_, workers_ ? workers_->alive() : 0);
  }

  // What the desk of `ddprun why` wants.
  Asked ask(std::uint64_t number, LookKind kind) override { return rounds_->ask_to_look(number, kind); }
  void answer(LookAnswer answer) override { rounds_->answer_look(std::move(answer)); }

  // What the workers do.
  [[nodiscard]] bool goes_on_spawning() const override {
    return supervisor_.state() == State::kStarting && !is_lease_over();
  }
  void worker_spawned(LocalRank local_rank, pid_t pid) override {
    raise(WorkerSpawned{.local_rank = local_rank, .pid = pid});
  }
  void spawn_failed(LocalRank local_rank, const Error& error) override {
    raise(SpawnFailed{.local_rank = local_rank, .error = error});
  }
  void worker_exited(LocalRank local_rank, ExitStatus status) override {
    // Then a guard has killed it, and it is no cause of anything.
    if (is_lease_over() && status.is_killed() && status.signal() == SIGKILL)
      raise(LeaseLost{"this launcher stood still until its lease was over"});
    const WorkerOutcome worker = look_at(local_rank);
    Ending ending = ending_of(worker, load_error_file(worker), plan_.options.no_restart_exit_codes);
    if (!status.is_success() && ending.weight == Weight::kSymptom) note_suspended();
    raise(WorkerExited{.local_rank = local_rank, .status = status, .ending = std::move(ending)});
  }
  /// Once, before the first symptom, for it reads files of all workers; and once they are told to end they go on.
  void note_suspended() {
    const bool is_first = supervisor_.state() == State::kStarting || supervisor_.state() == State::kRunning;
    if (!is_first || !workers_) return;
    if (std::vector<LocalRank> still = workers_->suspended(); !still.empty())
      raise(WorkersSuspended{std::move(still)});
  }
  WorkerOutcome look_at(LocalRank local_rank);
  [[nodiscard]] HangEnd hang_of(Rank rank) const { return deps_.hang_of ? deps_.hang_of(rank) : HangEnd(); }

  [[nodiscard]] ConsoleWait::Patience patience() const {
    using enum ConsoleWait::Patience;
    return outcome_.signal != 0 || was_hurried_ ? kTenSeconds : kWhileItTakes;
  }
  [[nodiscard]] bool is_lease_over() const { return BootClock::now() >= lease_until_; }

  void on_signal(const ReceivedSignal& signal);
  void hurry();
  void drain(const ReceivedSignal& signal);
  void suspend();

  // Events in, actions out.
  void raise(Event event);
  void carry_out(const Step& step);

  // Actions.
  void act(const JoinRound& action) { rounds_->tell(action, {}); }
  void act(const PublishLeaving& action) { rounds_->tell(action, {}); }
  void act(const PublishSuccess& action) { rounds_->tell(action, {}); }
  void act(const PublishFailure& action);
  void act(const SpawnWorkers& action);
  void act(const EndWorkers& action);
  void act(const SetDeadline& action);
  void act(const NameStuck& action);
  void act(const Sweep& action);
  void act(const Finish& action);
  void on_swept(Leftovers leftovers);
  void close_generation(Leftovers leftovers);
  void end_output();
  void close_all();

  const Plan& plan_;
  const AgentDeps& deps_;
  boost::asio::io_context& io_;
  JobOutput& output_;
  std::shared_ptr<Logger> logger_;
  Supervisor supervisor_;
  std::unique_ptr<OrphanWatch> orphans_;
  std::unique_ptr<RoundSource> rounds_;
  std::optional<WorkerGroup> workers_;
  std::array<Alarm, kDeadlineKinds> timers_;
  ConsoleWait console_wait_;
  std::deque<Event> events_;
  TimePoint lease_until_ = TimePoint::max();
  bool is_handling_ = false;
  bool is_finished_ = false;
  bool is_end_told_ = false;  // of a job that failed
  bool was_hurried_ = false;
  int sweeps_ = 0;
  membership::Round round_;
  GenerationOutcome generation_;
  JobOutcome outcome_;
  Gate gate_;
};

Result<JobOutcome> Agent::run() {
  Result<void> prepared = prepare();
  if (!prepared) return prepared.error();
  if (deps_.looks != nullptr) deps_.looks->open(*this);
  deps_.signals.start([this](const ReceivedSignal& signal) { on_signal(signal); });
  carry_out(supervisor_.start(BootClock::now()));
  io_.run();
  DDPRUN_CHECK(is_finished_, "the loop ends when the job has ended");
  return std::move(outcome_);
}

// In this order: orphans are ours from the first worker on, the guard holds no descriptor of the store, and
// the store is open before any worker can ask for it.
Result<void> Agent::prepare() {
  Result<std::unique_ptr<OrphanWatch>> orphans = OrphanWatch::start(io_, plan_, output_, *logger_);
  if (!orphans) return orphans.error();
  orphans_ = std::move(*orphans);
  if (!plan_.options.keep_detached) orphans_->tie_workers();
  workers_.emplace(WorkerGroup::Parts{.io = io_,
                                      .output = output_,
                                      .orphans = *orphans_,
                                      .observer = deps_.observer,
                                      .listener = *this,
                                      .open_files = deps_.open_files});
  orphans_->set_on_reaped([this] { workers_->look_at_groups(); });
  if (!plan_.log_root.empty()) {
    Result<void> made = make_directories(attempt_directory(plan_, Generation(1)));
    if (!made)
      return Error(ErrorCode::kConfig, made.error().message() + "; choose another place with --log-dir");
  }
  const auto open_rounds = plan_.options.max_nodes > 1 ? CoordinatedRounds::open : LocalRounds::open;
  Result<std::unique_ptr<RoundSource>> rounds = open_rounds(io_, plan_, *this, *logger_);
  if (!rounds) return rounds.error();
  rounds_ = std::move(*rounds);
  if (plan_.options.log_funnel) {
    output_.set_funnel(
        [this](bool is_stderr, std::string_view block) { return rounds_->send_lines(is_stderr, block); });
  }
  return ok();
}

void Agent::raise(Event event) {
  events_.push_back(std::move(event));
  if (is_handling_) return;
  is_handling_ = true;
  while (!events_.empty()) {
    const Event next = std::move(events_.front());
    events_.pop_front();
    carry_out(supervisor_.handle(next, BootClock::now()));
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
      (step.from == State::kStarting || step.from == State::kRunning || step.from == State::kBlaming);
  if (stops) deps_.observer.stopping(round_, supervisor_.reason(), supervisor_.why());
  for (const Action& action : step.actions) std::visit([this](const auto& what) { act(what); }, action);
}

void Agent::act(const EndWorkers& action) {
  output_.hurry();
  if (action.signal == SIGKILL) return workers_->kill_groups(action.workers);
  workers_->ask_to_end(action.workers, action.signal, plan_.options.shutdown_timeout);
}

WorkerOutcome Agent::look_at(LocalRank local_rank) {
  WorkerOutcome worker = workers_->look_at(local_rank);
  note_our_part(worker, supervisor_.workers()[static_cast<std::size_t>(local_rank.value())]);
  worker.hang = hang_of(worker.rank);
  return worker;
}

void Agent::act(const PublishFailure& action) {
  membership::NodeFailure failure = failure_of(action, supervisor_);
  failure.host = plan_.host.hostname;
  if (!action.workers.empty()) {
    // Whose words tell what happened: who left with 0 has none.
    failure.account = deps_.account_of(look_at(action.workers.back()));
    failure.worker = look_at(action.workers.front());
  }
  rounds_->tell(action, failure);
}

void Agent::act(const SpawnWorkers& /*action*/) {
  const std::string attempt = attempt_directory(plan_, round_.seat.generation);
  std::vector<WorkerSpec> specs = deps_.worker_specs(plan_, round_);
  DDPRUN_CHECK(static_cast<int>(specs.size()) == plan_.local_world_size.value(),
               "one spec for each local rank");
  generation_ = {};
  outcome_.granted_restart.reset();
  generation_.generation = round_.seat.generation;
  generation_.started_at = BootClock::now();
  generation_.log_dir = attempt;
  deps_.observer.round_begins(round_);
  if (!attempt.empty()) {
    if (Result<void> made = make_directories(attempt); !made) output_.say(made.error().message());
  }
  output_.begin_generation(attempt, specs);
  workers_->start(round_, std::move(specs));
}

void Agent::act(const SetDeadline& action) {
  timers_[static_cast<std::size_t>(action.deadline)].set_at(action.at, [this, kind = action.deadline] {
    workers_->check_exits();
    // An exit that lay there has begun something else, with a time of its own.
    if (timers_[static_cast<std::size_t>(kind)].is_set()) return;
    // What a reaped worker left behind is for the sweep: only who has not ended itself is stuck.
    if (kind == DeadlineKind::kReap) workers_->await_groups_no_longer();
    raise(expiry_of(kind));
  });
}

void Agent::act(const NameStuck& action) {
  for (const LocalRank local_rank : action.workers) {
    const WorkerOutcome& stuck = workers_->name_stuck(local_rank);
    output_.say(fmt::format("rank {} (pid {}) is in state {}", stuck.rank, stuck.pid, stuck.stuck_in));
  }
}

void Agent::on_signal(const ReceivedSignal& signal) {
  if (signal.number == SIGCHLD) {
    // Exits of workers that are known already come first: their order tells cause from consequence.
    boost::asio::post(io_, gate_.pass([this] { orphans_->reap(); }));
    return;
  }
  if (signal.number == SIGWINCH) return output_.resize();
  const std::optional<LookKind> question = kind_of_question(signal.value);
  if (signal.number == SIGURG && question) {
    if (deps_.looks != nullptr) deps_.looks->asked_by(signal.sender, signal.value & 0xffff, *question);
    return;
  }
  const std::vector<int>& ending = plan_.options.signals_to_handle;
  if (std::find(ending.begin(), ending.end(), signal.number) == ending.end()) {
    if (signal.number == SIGTSTP) return suspend();
    if (signal.number == SIGURG) return;          // as if nobody listened
    if (!workers_->signal_each(signal.number)) {  // SIGUSR1 and SIGUSR2
      output_.say(fmt::format("received {} while no worker is alive: the next ones will get it",
                              signal_name(signal.number)));
    }
    return;
  }
  if (is_finished_) return hurry();
  if (signal.number == SIGTERM && signal.value == kDrainValue) return drain(signal);
  raise(Signalled{.signal = signal.number, .sender = sender_text(signal)});
}

// The job is over for this node: what it still waits for is other nodes, and then its console.
void Agent::hurry() {
  was_hurried_ = true;
  if (!rounds_->hurry()) console_wait_.end();
}

// `ddprun drain` means the whole job: where others have to be asked, the order to stop comes back from them.
void Agent::drain(const ReceivedSignal& signal) {
  if (rounds_->drain()) return output_.say("asked to drain the job" + sender_text(signal));
  raise(Signalled{.signal = SIGTERM, .sender = sender_text(signal), .exit_code = exit_code::kTempFail});
}

// Ctrl-Z. The workers are in sessions of their own, where the terminal's signal does not reach them.
void Agent::suspend() {
  if (plan_.options.max_nodes > 1) {
    return output_.say(
        "Ctrl-Z (SIGTSTP) is not obeyed: a node that stands still is given up by the others, and its workers "
        "are killed; `ddprun drain` ends the job and lets its workers save");
  }
  workers_->suspend();
  output_.give_terminal_back();
  SignalSource::stop_this_process();
  output_.take_terminal();
  workers_->resume();
}

void Agent::act(const Sweep& action) {
  workers_->drain();
  const bool is_success = supervisor_.reason() == StopReason::kSucceeded;
  const auto done = [this, number = ++sweeps_](Leftovers leftovers) {
    if (number == sweeps_) on_swept(std::move(leftovers));  // one that was overtaken says nothing
  };
  if (is_success && plan_.options.keep_detached) {
    boost::asio::post(io_, gate_.pass([done] { done({}); }));
    return;
  }
  orphans_->sweep(action.is_at_once ? SweepMode::kKillAtOnce : SweepMode::kAskFirst, done);
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
  std::string survivors = fmt::format("{}", fmt::join(leftovers.surviving, ", "));
  close_generation(std::move(leftovers));
  raise(Swept{std::move(survivors)});
}

// Everything the workers wrote is out, and the facts are final.
void Agent::close_generation(Leftovers leftovers) {
  generation_.workers = workers_->close(supervisor_.workers());
  for (WorkerOutcome& worker : generation_.workers) worker.hang = hang_of(worker.rank);
  output_.end_generation();
  generation_.reason = supervisor_.reason();
  generation_.signal = supervisor_.stop_signal();
  generation_.why = supervisor_.why();
  generation_.root_cause = index_of(supervisor_.root_cause());
  generation_.victim = index_of(supervisor_.victim());
  generation_.ended_at = BootClock::now();
  generation_.leftovers = std::move(leftovers.ended);
  generation_.survivors = std::move(leftovers.surviving);
  orphans_->remove_segments();
  deps_.observer.generation_ended(generation_);
  outcome_.generations.push_back(std::move(generation_));
  generation_ = {};
  forget_old_words(outcome_);
}

void Agent::act(const Finish& action) {
  is_finished_ = true;
  // Of a job that only this node ended, the supervisor has the last word.
  outcome_.refusal = supervisor_.refusal();
  if (is_end_told_) note_bad_end(outcome_);
  outcome_.exit_code = action.exit_code;
  outcome_.reason = supervisor_.reason();
  outcome_.signal = supervisor_.stop_signal();
  outcome_.error = supervisor_.error();
  const std::string& decided = supervisor_.why_no_restart();
  outcome_.why = decided.empty() ? supervisor_.why() : decided;
  for (Alarm& timer : timers_) timer.close();
  if (deps_.looks != nullptr) deps_.looks->close();
  // Lines of other nodes may come until these have left.
  rounds_->close(action, [this] {
    output_.finish_remote();
    deps_.on_end(outcome_);
    console_wait_.start(patience(), [this] { end_output(); });
  });
}

// What nobody has taken by now is lost, and that is said to whoever still listens.
void Agent::end_output() {
  outcome_.lost_output = output_.settle();
  if (std::optional<LostOutput> lost = rounds_->lost_output())
    outcome_.lost_output.push_back(std::move(*lost));
  deps_.on_output_done(outcome_);
  console_wait_.start(patience(), [this] { close_all(); });
}

// Nothing is pending on the loop after this, so that it returns.
void Agent::close_all() {
  gate_.close();
  deps_.signals.close();
  orphans_->close();
  output_.close();
  workers_->clear();
}

}  // namespace

Result<JobOutcome> run_agent(const Plan& plan, const AgentDeps& deps) {
  Agent agent(plan, deps);
  return agent.run();
}

}  // namespace ddprun::launcher
