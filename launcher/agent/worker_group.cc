#include "launcher/agent/worker_group.h"

#include "launcher/process/process_table.h"
#include "launcher/process/spawn.h"

#include <boost/asio/post.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr int kSpawnsPerTurn = 16;
constexpr auto kLookForListeners = std::chrono::milliseconds(100);
constexpr auto kLookAtGroups = std::chrono::milliseconds(100);
bool is_ctrl_c(int signal) { return signal == SIGINT || signal == SIGQUIT; }

WorkerGroup::FileMark mark_of(const std::string& path) {
  struct stat status {};
  if (path.empty() || ::stat(path.c_str(), &status) != 0) return {};
  return {.inode = status.st_ino,
          .changed_ns = status.st_mtim.tv_sec * std::int64_t{1'000'000'000} + status.st_mtim.tv_nsec,
          .size = status.st_size};
}

std::vector<ProcessEntry> read_each(const std::set<pid_t>& pids) {
  std::vector<ProcessEntry> processes;
  for (const pid_t pid : pids) {
    if (std::optional<ProcessEntry> process = read_process(pid)) processes.push_back(std::move(*process));
  }
  return processes;
}

bool has_other_groups(const std::vector<ProcessEntry>& processes, pid_t leader) {
  return std::any_of(processes.begin(), processes.end(), [leader](const ProcessEntry& process) {
    return process.session == leader && process.group != leader && !process.has_ended();
  });
}

}  // namespace

void WorkerGroup::start(const membership::Round& round, std::vector<WorkerSpec> specs) {
  round_ = round;
  gate_.turn_away();
  looks_soon_ = false;
  groups_alarm_.cancel();
  asked_members_.clear();
  asked_copies_.clear();
  workers_.clear();
  workers_.reserve(specs.size());
  for (WorkerSpec& spec : specs) {
    auto worker = std::make_unique<Worker>();
    worker->outcome.rank = spec.rank;
    worker->outcome.local_rank = spec.local_rank;
    worker->outcome.error_file = spec.error_file;
    worker->spec = std::move(spec);
    worker->kept = kept_;
    workers_.push_back(std::move(worker));
  }
  kept_.clear();
  next_to_spawn_ = 0;
  spawn_some();
  deliver_kept();
}

void WorkerGroup::spawn_some() {
  for (int turn = 0; turn < kSpawnsPerTurn; ++turn) {
    if (!parts_.listener.goes_on_spawning() || next_to_spawn_ == workers_.size()) return;
    if (!spawn_one(*workers_[next_to_spawn_++])) return;
  }
  boost::asio::post(parts_.io, gate_.pass([this] { spawn_some(); }));
}

bool WorkerGroup::spawn_one(Worker& worker) {
  if (worker.spec.cannot_start) {
    parts_.listener.spawn_failed(worker.spec.local_rank, *worker.spec.cannot_start);
    return false;
  }
  const Result<void> opened = open_streams(worker);
  // That can have taken long, where a file system hangs.
  if (opened && !parts_.listener.goes_on_spawning()) {
    worker.streams.reset();
    return false;
  }
  Result<SpawnedProcess> process = opened ? spawn_process(worker) : opened.error();
  if (!process) {
    parts_.listener.spawn_failed(worker.spec.local_rank, process.error());
    return false;
  }
  worker.outcome.pid = process->pid;
  worker.outcome.stdout_path = worker.streams->stdout_path();
  worker.outcome.stderr_path = worker.streams->stderr_path();
  parts_.orphans.worker_started(process->pid);
  worker.child = std::make_unique<ChildProcess>(parts_.io, std::move(*process));
  worker.child->watch([this, &worker](ExitStatus status) { on_exit(worker, status); });
  parts_.observer.worker_spawned(round_, worker.outcome);
  parts_.listener.worker_spawned(worker.spec.local_rank, worker.outcome.pid);
  return true;
}

Result<void> WorkerGroup::open_streams(Worker& worker) {
  // Made here and not for all at once: the disk works while the worker before this one starts.
  if (!worker.spec.log_dir.empty()) {
    if (Result<void> made = make_directories(worker.spec.log_dir); !made) {
      parts_.output.say(made.error().message());
    }
  }
  // A coordinator that was started anew counts attempts from 0 again.
  set_aside(worker.spec.error_file);
  Result<std::unique_ptr<WorkerStreams>> streams = parts_.output.open_streams(worker.spec);
  if (!streams) return streams.error();
  worker.streams = std::move(*streams);
  return ok();
}

Result<SpawnedProcess> WorkerGroup::spawn_process(Worker& worker) {
  SpawnRequest request;
  request.argv = worker.spec.argv;
  request.environment = worker.spec.environment;
  request.cpus = worker.spec.cpus;
  request.stdin_fd = worker.streams->stdin_fd();
  request.stdout_fd = worker.streams->stdout_fd();
  request.stderr_fd = worker.streams->stderr_fd();
  request.stdin_is_terminal = worker.streams->stdin_is_terminal();
  request.open_files = parts_.open_files;
  parts_.orphans.mark(request);
  worker.error_file_before = mark_of(worker.spec.error_file);
  worker.outcome.started_at = BootClock::now();
  worker.outcome.started_wall = std::chrono::system_clock::now();
  Result<SpawnedProcess> process = spawn(request);
  worker.streams->spawned();
  return process;
}

void WorkerGroup::on_exit(Worker& worker, ExitStatus status) {
  worker.outcome.ended_at = BootClock::now();
  worker.outcome.ended_wall = std::chrono::system_clock::now();
  worker.outcome.status = status;
  parts_.orphans.worker_ended(worker.outcome.pid);
  if (worker.asked_with == 0 || !(worker.has_groups || worker.child->left_group())) return tell_exit(worker);
  worker.awaits_group = true;
  look_soon();
}

// Once for all workers that end in this turn of the loop.
void WorkerGroup::look_soon() {
  if (std::exchange(looks_soon_, true)) return;
  boost::asio::post(parts_.io, gate_.pass([this] {
    looks_soon_ = false;
    look_at_groups();
  }));
}

void WorkerGroup::look_at_groups() {
  std::vector<Worker*> awaiting, sparing;
  for (const auto& worker : workers_) {
    if (worker->spares_some && (worker->child->is_running() || worker->awaits_group))
      sparing.push_back(worker.get());
    if (!worker->awaits_group) continue;
    if (worker->has_groups || worker->child->left_group()) {
      awaiting.push_back(worker.get());
    } else {
      tell_exit(*worker);
    }
  }
  groups_alarm_.cancel();
  if (awaiting.empty() && sparing.empty()) return;
  const TimePoint began = BootClock::now();
  bool is_left = !sparing.empty();
  for (Worker* worker : sparing) hand_on(*worker, who_hears(*worker, read_each(worker->there)));
  std::vector<ProcessEntry> processes;
  if (!awaiting.empty()) processes = read_processes();
  for (Worker* worker : awaiting) {
    const std::vector<pid_t> heads = heads_of_session(processes, worker->outcome.pid);
    if (heads.empty()) {
      tell_exit(*worker);
      continue;
    }
    is_left = true;
    if (worker->is_killed) {
      kill_session(*worker, processes);  // what was forked meanwhile
      continue;
    }
    for (const ProcessEntry& process : processes) {
      if (std::find(heads.begin(), heads.end(), process.pid) == heads.end()) continue;
      // Who was asked, and ignores the signal by now, is at its save.
      const bool was_asked = asked_members_.contains({process.pid, worker->asked_with});
      const bool ignores = !was_asked && ignores_signal(process.pid, worker->asked_with);
      const int signal = ignores ? SIGTERM : worker->asked_with;
      // Between fork and exec a shell's child has the shell's handler: what it was asked then it has forgotten.
      const bool has_forgotten = !process.is_copy && asked_copies_.erase(process.pid) > 0;
      if (!note_asked(process, signal) && !has_forgotten) continue;
      note_told_group(processes, process.pid, signal);
      ask_member(*worker, process.pid, signal);
    }
  }
  if (!is_left) return;
  // Those that are not our children end unheard; a long list is looked through less often.
  const Duration took = BootClock::now() - began;
  groups_alarm_.set_after(std::max<Duration>(kLookAtGroups, 10 * took), [this] { look_at_groups(); });
}

bool WorkerGroup::note_asked(const ProcessEntry& process, int signal) {
  const bool is_new = asked_members_.insert({process.pid, signal}).second;
  if (is_new && process.is_copy) asked_copies_.insert(process.pid);
  return is_new;
}

// They hear of it, and are not asked once more when their parent has died of it.
void WorkerGroup::note_told_group(const std::vector<ProcessEntry>& processes, pid_t teller, int signal) {
  const auto found = std::find_if(processes.begin(), processes.end(),
                                  [teller](const ProcessEntry& process) { return process.pid == teller; });
  if (found == processes.end() || !tells_its_group(*found)) return;
  for (const ProcessEntry& process : processes) {
    if (process.group == found->group && !ignores_signal(process.pid, signal)) note_asked(process, signal);
  }
}

void WorkerGroup::ask_member(const Worker& worker, pid_t pid, int signal) {
  worker.child->signal_member(pid, signal);
  worker.child->signal_member(pid, SIGCONT);
}

// At the first time of all that are there; later of those of them whose parent has begun to wait for them: what was
// started in between is for its end.
CtrlC WorkerGroup::who_hears(Worker& worker, const std::vector<ProcessEntry>& processes) {
  const pid_t leader = worker.child->pid();
  const bool is_first = !worker.spares_some;
  if (is_first) worker.there.clear();
  std::vector<ProcessEntry> there;
  for (const ProcessEntry& process : processes) {
    if (process.session != leader) continue;
    if (is_first) worker.there.insert(process.pid);
    if (worker.there.contains(process.pid)) there.push_back(process);
  }
  CtrlC ctrl_c = ctrl_c_behind(there, leader, worker.asked_with, BootClock::now() < worker.spares_until);
  worker.spares_some = ctrl_c.spares;
  return ctrl_c;
}

void WorkerGroup::hand_on(const Worker& worker, const CtrlC& ctrl_c) {
  for (const ProcessEntry& process : ctrl_c.told) note_asked(process, worker.asked_with);
  for (const ProcessEntry& process : ctrl_c.hears) {
    if (note_asked(process, worker.asked_with)) ask_member(worker, process.pid, worker.asked_with);
  }
}

void WorkerGroup::await_groups_no_longer() {
  groups_alarm_.cancel();
  for (const auto& worker : workers_) {
    if (worker->awaits_group) tell_exit(*worker);
  }
}

void WorkerGroup::tell_exit(Worker& worker) {
  worker.awaits_group = false;
  parts_.observer.worker_exited(round_, worker.outcome);  // before what follows from it
  parts_.listener.worker_exited(worker.spec.local_rank, *worker.outcome.status);
  worker.streams->drain();
}

void WorkerGroup::ask_to_end(const std::vector<LocalRank>& workers, int signal, Duration grace) {
  std::vector<ProcessEntry> processes;  // read once, if at all
  bool spares_some = false;
  for (const LocalRank local_rank : workers) {
    Worker& asked = worker(local_rank);
    const pid_t leader = asked.child->pid();
    asked.asked_with = signal;
    asked.spares_until = BootClock::now() + grace / 2;
    asked.spares_some = false;
    note_words_before(asked, signal);
    const bool is_shell = only_starts_programs(leader);
    if (processes.empty() && (is_ctrl_c(signal) || is_shell)) processes = read_processes();
    asked.has_groups = is_shell && has_other_groups(processes, leader);
    note_told_group(processes, leader, signal);
    // Looked at before: a shell that has died of it cannot be asked which program it was.
    const CtrlC ctrl_c = is_ctrl_c(signal) ? who_hears(asked, processes) : CtrlC{};
    asked.child->signal(signal);
    hand_on(asked, ctrl_c);
    spares_some = spares_some || asked.spares_some;
    asked.child->signal_group(SIGCONT);  // a stopped one hears nothing else
  }
  if (spares_some) groups_alarm_.set_after(kLookAtGroups, [this] { look_at_groups(); });
}

void WorkerGroup::kill_groups(const std::vector<LocalRank>& workers) {
  std::vector<ProcessEntry> processes;  // read once, if at all
  for (const LocalRank local_rank : workers) {
    Worker& killed = worker(local_rank);
    killed.is_killed = true;
    killed.spares_some = false;
    killed.child->signal_group(SIGKILL);
    if (!killed.has_groups) continue;
    if (processes.empty()) processes = read_processes();
    kill_session(killed, processes);
  }
}

void WorkerGroup::kill_session(const Worker& worker, const std::vector<ProcessEntry>& processes) {
  const pid_t leader = worker.child->pid();
  if (!worker.child->is_running() && heads_of_session(processes, leader).empty()) return;
  for (const ProcessEntry& process : processes) {
    if (process.session == leader) worker.child->signal_member(process.pid, SIGKILL);
  }
}

void WorkerGroup::suspend() {
  for (const auto& worker : workers_) {
    if (worker->child) worker->child->signal_group(SIGSTOP);
  }
}

void WorkerGroup::resume() {
  for (const auto& worker : workers_) {
    if (worker->child) worker->child->signal_group(SIGCONT);
  }
}

std::vector<LocalRank> WorkerGroup::suspended() const {
  std::vector<LocalRank> still;
  std::vector<ProcessEntry> processes;  // read once, if at all
  for (const auto& worker : workers_) {
    if (!worker->child || !worker->child->is_running()) continue;
    const pid_t leader = worker->child->pid();
    const std::optional<ProcessEntry> process = read_process(leader);
    bool is_it = process && process->state == 'T';
    if (!is_it && (only_starts_programs(leader) || waits_for_a_child(leader))) {
      if (processes.empty()) processes = read_processes();
      const std::vector<ProcessEntry> programs = programs_behind(processes, leader);
      // A helper beside the program may stand still for any reason.
      is_it =
          !programs.empty() && std::all_of(programs.begin(), programs.end(),
                                           [](const ProcessEntry& program) { return program.state == 'T'; });
    }
    if (is_it) still.push_back(worker->spec.local_rank);
  }
  return still;
}

bool WorkerGroup::signal_each(int signal) {
  bool was_heard = false;
  for (const auto& worker : workers_) {
    if (!worker->child || !worker->child->is_running()) continue;
    worker->child->signal(signal);
    worker->outcome.passed_on = signal;
    was_heard = true;
  }
  if (!was_heard) kept_.insert(signal);
  return was_heard;
}

// Nothing tells when a program has begun to listen, and one that does not yet would be ended by the signal.
void WorkerGroup::deliver_kept() {
  bool is_due = false;
  for (const auto& worker : workers_) {
    if (worker->child && !worker->child->is_running()) worker->kept.clear();
    std::erase_if(worker->kept, [&](int signal) {
      if (!worker->child || !catches_signal(worker->child->pid(), signal)) return false;
      worker->child->signal(signal);
      return true;
    });
    is_due = is_due || !worker->kept.empty();
  }
  if (is_due) kept_alarm_.set_after(kLookForListeners, [this] { deliver_kept(); });
}

const WorkerOutcome& WorkerGroup::name_stuck(LocalRank local_rank) {
  WorkerOutcome& stuck = worker(local_rank).outcome;
  stuck.stuck_in = describe_stuck(stuck.pid);
  return stuck;
}

WorkerOutcome WorkerGroup::look_at(LocalRank local_rank) {
  Worker& seen = worker(local_rank);
  if (seen.streams) {
    seen.streams->drain();
    note_last_words(seen);
  }
  return seen.outcome;
}

void WorkerGroup::note_last_words(Worker& worker) {
  worker.outcome.stderr_tail = worker.streams->stderr_tail();
  worker.outcome.traceback = worker.streams->last_traceback();
  worker.outcome.error_file_is_old =
      worker.error_file_before != FileMark{} && worker.error_file_before == mark_of(worker.spec.error_file);
  if (!worker.before_signal) return;
  const Words& before = *worker.before_signal;
  // One that lay there may be written anew: who had failed by then may have more to say.
  const bool lay_there = before.error_file != FileMark{} && before.error_file != worker.error_file_before;
  worker.outcome.error_file_is_late = !lay_there && before.error_file != mark_of(worker.spec.error_file);
  // Further lines of its text may have followed.
  worker.outcome.traceback_is_late =
      before.traceback.empty() || !worker.outcome.traceback.text.starts_with(before.traceback);
}

void WorkerGroup::note_words_before(Worker& worker, int signal) {
  if (worker.before_signal || !worker.streams) return;
  worker.outcome.was_leaving = leaving(worker.outcome.pid);
  if (ignores_signal(worker.outcome.pid, signal)) return;
  worker.streams->drain();
  worker.before_signal = {worker.streams->last_traceback().text, mark_of(worker.spec.error_file)};
}

int WorkerGroup::alive() const {
  const auto is_alive = [](const auto& worker) { return worker->child && worker->child->is_running(); };
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), is_alive));
}

void WorkerGroup::check_exits() {
  for (const auto& worker : workers_) {
    if (worker->child) worker->child->check_exit();
  }
}

void WorkerGroup::drain() {
  for (const auto& worker : workers_) {
    if (worker->streams) worker->streams->drain();
  }
}

std::vector<WorkerOutcome> WorkerGroup::close(const std::vector<SupervisedWorker>& seen) {
  std::vector<WorkerOutcome> outcomes;
  outcomes.reserve(workers_.size());
  for (const auto& worker : workers_) {
    WorkerFate& fate = worker->outcome;
    fate = seen[static_cast<std::size_t>(worker->spec.local_rank.value())];
    if (worker->streams) {
      worker->streams->finish();
      note_last_words(*worker);
    }
    outcomes.push_back(worker->outcome);
  }
  return outcomes;
}

}  // namespace ddprun::launcher
