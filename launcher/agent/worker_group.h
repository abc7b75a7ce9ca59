#pragma once

#include "launcher/agent/observer.h"
#include "launcher/agent/orphan_watch.h"
#include "launcher/agent/outcome.h"
#include "launcher/agent/supervisor.h"
#include "launcher/plan.h"
#include "launcher/process/child.h"
#include "launcher/process/output.h"
#include "rendezvous/base/gate.h"

#include <boost/asio/io_context.hpp>
#include <sys/resource.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// The workers of the running generation on this node: their processes, their streams and the facts for the
/// report.
///
/// Threads  none: the io_context's one thread.
class WorkerGroup {
 public:
  /// Told what happens to the workers, as it happens.
  class Listener {
   public:
    virtual ~Listener() = default;
    /// Whether the next worker is still wanted.
    [[nodiscard]] virtual bool goes_on_spawning() const = 0;
    virtual void worker_spawned(LocalRank local_rank, pid_t pid) = 0;
    virtual void spawn_failed(LocalRank local_rank, const Error& error) = 0;
    /// It has been reaped. What it wrote last is taken after this call.
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
  explicit WorkerGroup(const Parts& parts) : parts_(parts) {}

  /// Takes the place of the generation before, which has been closed, and starts the workers, a few in each
  /// turn of the loop, so that exits and signals are heard in between.
  void start(const RoundInfo& round, std::vector<WorkerSpec> specs);

  /// To the OS process groups of `workers`.
  void signal_groups(const std::vector<LocalRank>& workers, int signal);
  /// To every worker, and not to its children.
  void signal_each(int signal);

  /// Where a worker that does not end is stuck; the report gets it, too.
  const WorkerOutcome& name_stuck(LocalRank local_rank);
  /// What is known about a worker now, its last words on stderr included.
  WorkerOutcome look_at(LocalRank local_rank);
  /// Takes what the workers wrote last.
  void drain();
  /// Everything the workers wrote is out, and the facts are final.
  std::vector<WorkerOutcome> close(const std::vector<SupervisedWorker>& seen);
  /// Removes the workers' directories that nobody wrote into.
  void remove_empty_directories();
  void clear() {
    gate_.turn_away();
    workers_.clear();
  }

 private:
  struct Worker {
    WorkerSpec spec;
    std::unique_ptr<WorkerStreams> streams;
    std::unique_ptr<ChildProcess> child;
    WorkerOutcome outcome;
  };

  void spawn_some();
  bool spawn_one(Worker& worker);
  Result<SpawnedProcess> spawn_process(Worker& worker);
  void on_exit(Worker& worker, ExitStatus status);
  static void note_last_words(Worker& worker);
  Worker& worker(LocalRank local_rank) { return *workers_[static_cast<std::size_t>(local_rank.value())]; }

  Parts parts_;
  RoundInfo round_;
  std::vector<std::unique_ptr<Worker>> workers_;  // by local rank
  std::size_t next_to_spawn_ = 0;
  Gate gate_;
};

}  // namespace ddprun::launcher
