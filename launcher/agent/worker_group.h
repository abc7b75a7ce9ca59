#pragma once

#include "launcher/agent/supervisor.h"
#include "launcher/cleanup/orphan_watch.h"
#include "launcher/output/output.h"
#include "launcher/plan/plan.h"
#include "launcher/process/child.h"
#include "launcher/process/ctrl_c.h"
#include "launcher/report/observer.h"
#include "launcher/report/outcome.h"
#include "rendezvous/base/alarm.h"
#include "rendezvous/base/gate.h"

#include <boost/asio/io_context.hpp>
#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher {

/// The workers of the running generation on this node: their processes, their streams and the facts for the
/// report.
///
/// Threads  none: the io_context's one thread.
class WorkerGroup {
 public:
  /// Which version of a file lies at a path: a file is changed if any of these is. All 0: none.
  struct FileMark {
    std::uint64_t inode = 0;
    std::int64_t changed_ns = 0;
    std::int64_t size = 0;
    friend bool operator==(const FileMark&, const FileMark&) = default;
  };

  /// Told what happens to the workers, as it happens.
  class Listener {
   public:
    virtual ~Listener() = default;
    /// Whether the next worker is still wanted.
    [[nodiscard]] virtual bool goes_on_spawning() const = 0;
    virtual void worker_spawned(LocalRank local_rank, pid_t pid) = 0;
    virtual void spawn_failed(LocalRank local_rank, const Error& error) = 0;
    /// It has been reaped and, if it was asked to end, nothing lives of its OS process group, or of a shell's
    /// session. What it wrote last is taken after this call.
    virtual void worker_exited(LocalRank local_rank, ExitStatus status) = 0;
  };

  /// What a group works with; all of it outlives the group.
  struct Parts {
    boost::asio::io_context& io;
    JobOutput& output;
    OrphanWatch& orphans;
    Observer& observer;
    Listener& listener;
    rlimit open_files;  ///< what workers get
  };
  explicit WorkerGroup(const Parts& parts) : parts_(parts), groups_alarm_(parts.io), kept_alarm_(parts.io) {}

  /// Takes the place of the generation before, which has been closed, and starts the workers, a few in each
  /// turn of the loop, so that exits and signals are heard in between.
  void start(const membership::Round& round, std::vector<WorkerSpec> specs);

  /// Asks `workers` to end: `signal` goes to each one's own process and not to its children, for a worker
  /// that wants to save its work needs its data loaders, but for Ctrl-C (ctrl_c_behind). When it has ended (a shell
  /// that died has left its program behind), it is the turn of those of its session whose parent is not in that; the
  /// worker's exit is told when all of them have ended.
  /// Whom Ctrl-C spares hears it when half of the `grace` is over.
  void ask_to_end(const std::vector<LocalRank>& workers, int signal, Duration grace);
  /// SIGKILL to the OS process groups of `workers`, and to those of a shell's jobs.
  void kill_groups(const std::vector<LocalRank>& workers);
  /// Processes were reaped that were no workers: some group may have become empty, or have new orphans.
  void look_at_groups();
  /// Tells the exits of workers that have been reaped, whatever lives on in their groups.
  void await_groups_no_longer();
  /// Those that stand still, stopped by SIGSTOP or SIGTSTP: they or, of a shell, what it has started.
  [[nodiscard]] std::vector<LocalRank> suspended() const;
  /// SIGSTOP to every worker's OS process group (SIGTSTP has no effect in a session without a terminal), and
  /// SIGCONT.
  void suspend();
  void resume();
  /// To every worker, and not to its children. False: there is none now; then it is kept for those of the
  /// next generation, each of which gets it once it has a handler for it.
  bool signal_each(int signal);

  /// Where a worker that does not end is stuck; the report gets it, too.
  const WorkerOutcome& name_stuck(LocalRank local_rank);
  /// What is known about a worker now, its last words on stderr included.
  WorkerOutcome look_at(LocalRank local_rank);
  /// How many workers have been started and not reaped.
  [[nodiscard]] int alive() const;
  /// Tells now of those that have ended, and not when their turn comes in the loop: before what comes of a clock, which
  /// also went on while this process stood still.
  void check_exits();
  /// Takes what the workers wrote last.
  void drain();
  /// Everything the workers wrote is out, and the facts are final.
  std::vector<WorkerOutcome> close(const std::vector<SupervisedWorker>& seen);
  void clear() {
    gate_.turn_away();
    groups_alarm_.cancel();
    kept_alarm_.cancel();
    workers_.clear();
  }

 private:
  struct Words {
    std::string traceback;
    FileMark error_file;
  };
  struct Worker {
    WorkerSpec spec;
    std::unique_ptr<WorkerStreams> streams;
    std::unique_ptr<ChildProcess> child;
    WorkerOutcome outcome;
    int asked_with = 0;          ///< the signal it was asked to end with
    bool spares_some = false;    ///< Ctrl-C has not been handed on to all of `there`
    TimePoint spares_until{};    ///< then it is handed on to all
    std::set<pid_t> there;       ///< the processes of its session at Ctrl-C
    bool has_groups = false;     ///< a shell that had jobs in other OS process groups when it was asked
    bool is_killed = false;      ///< with all that is in them
    bool awaits_group = false;   ///< it has ended, and its exit will be told when its session is gone
    std::set<int> kept;          ///< signals of the time before it, for when it listens
    FileMark error_file_before;  ///< what lies there when it is started
    std::optional<Words> before_signal;  ///< ours, the first that it does not ignore and can answer
  };

  void spawn_some();
  bool spawn_one(Worker& worker);
  Result<void> open_streams(Worker& worker);
  Result<SpawnedProcess> spawn_process(Worker& worker);
  void on_exit(Worker& worker, ExitStatus status);
  static void note_last_words(Worker& worker);
  static void note_words_before(Worker& worker, int signal);
  void look_soon();
  bool note_asked(const ProcessEntry& process, int signal);
  void note_told_group(const std::vector<ProcessEntry>& processes, pid_t teller, int signal);
  static void ask_member(const Worker& worker, pid_t pid, int signal);
  static CtrlC who_hears(Worker& worker, const std::vector<ProcessEntry>& processes);
  void hand_on(const Worker& worker, const CtrlC& ctrl_c);
  static void kill_session(const Worker& worker, const std::vector<ProcessEntry>& processes);
  void deliver_kept();
  void tell_exit(Worker& worker);
  Worker& worker(LocalRank local_rank) { return *workers_[static_cast<std::size_t>(local_rank.value())]; }

  Parts parts_;
  membership::Round round_;
  std::vector<std::unique_ptr<Worker>> workers_;  // by local rank
  std::size_t next_to_spawn_ = 0;
  std::set<std::pair<pid_t, int>> asked_members_;  // and with what
  std::set<pid_t> asked_copies_;                   // that had begun no program then
  Alarm groups_alarm_;
  bool looks_soon_ = false;
  std::set<int> kept_;  ///< signals that no worker could hear
  Alarm kept_alarm_;
  Gate gate_;
};

}  // namespace ddprun::launcher
